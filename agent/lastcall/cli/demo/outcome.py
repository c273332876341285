"""What a run of the demo came to: its steps by the processes' word, its times by the agent's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from lastcall.cli.demo.job import Heard
from lastcall.cli.demo.scenario import DemoError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run, from its first start to its last step.

    Attributes:
        resumed_from: the step of the checkpoint that the second start began with.
        steps_redone: how many steps were done twice.
        lost_seconds: training that no checkpoint held at the end of the first start.
        states: the final state of each rank, as it says.
        expected_state: what it is where nothing is lost and nothing done twice.
    """

    resumed_from: int
    steps_redone: int
    lost_seconds: float
    states: tuple[int, ...]
    expected_state: int

    @property
    def verified(self) -> bool:
        """Whether every rank ended in the state of a run that nothing interrupts."""
        return all(state == self.expected_state for state in self.states)


@dataclass(frozen=True, slots=True)
class Flushes:
    """What the agent says of the notice and its flushes; times count from when it was shown.

    Attributes:
        lead_seconds: from the agent's first sight to the deadline.
        lead_assumed: whether the deadline is the agent's assumption: the provider names none.
        signal_seconds: from the agent's first sight until all processes were told.
        told_after_seconds: until all processes were told.
        flushed_after_seconds: until the last flush was durable.
        margin_seconds: from the last flush to the deadline.
        in_time: how many flushes were durable in time.
        metrics: the samples that say so.
    """

    lead_seconds: float
    lead_assumed: bool
    signal_seconds: float
    told_after_seconds: float
    flushed_after_seconds: float
    margin_seconds: float
    in_time: int
    metrics: tuple[str, ...]


def outcome(first: Heard, second: Heard, expected_state: int) -> Outcome:
    """Return what the two starts of a run came to."""
    resumed_from = second.all("started", rank=0)[0]["step"]
    done = [event for heard in (first, second) for event in heard.all("step", rank=0)]
    last = first.all("step", rank=0)[-1]
    held = next(
        event["at_unix"]
        for name in ("saved", "flushed", "started")
        for event in first.all(name, rank=0, step=resumed_from)
    )
    lost_seconds = last["at_unix"] - held if last["step"] > resumed_from else 0.0
    return Outcome(
        resumed_from=resumed_from,
        steps_redone=sum(count - 1 for count in Counter(event["step"] for event in done).values()),
        lost_seconds=lost_seconds,
        states=tuple(event["state"] for event in second.all("finished")),
        expected_state=expected_state,
    )


def flushes(view: dict[str, Any], metrics: list[str], shown_unix: float) -> Flushes:
    """Return what the agent says came of the notice.

    Args:
        view: its status.
        metrics: the samples of its ``/metrics``.
        shown_unix: when the provider began to show the notice.

    Raises:
        DemoError: it knows of no notice, or of no flush.
    """
    notice = next(iter(view["notices"]), None)
    if notice is None or not notice["flushes"]:
        raise DemoError("the agent knows of no flush")
    settled = [one for one in notice["flushes"] if one["settled_after_seconds"] is not None]
    if len(settled) < len(notice["flushes"]):
        raise DemoError("not every flush is over")
    signal_seconds = sum(samples(metrics, "lastcall_signal_seconds_sum").values())
    return Flushes(
        lead_seconds=notice["lead_seconds"],
        lead_assumed=notice["deadline_quality"] != "provider",
        signal_seconds=signal_seconds,
        told_after_seconds=notice["first_seen_unix"] + signal_seconds - shown_unix,
        flushed_after_seconds=max(
            flush["told_unix"] + flush["settled_after_seconds"] for flush in settled
        )
        - shown_unix,
        margin_seconds=min(flush["margin_seconds"] for flush in settled),
        in_time=round(
            sum(
                value
                for sample, value in samples(metrics, "lastcall_flushes_total").items()
                if 'outcome="in_time"' in sample
            )
        ),
        metrics=tuple(
            f"{sample} {value:g}"
            for name in (
                "lastcall_notice_lead_seconds_sum",
                "lastcall_signal_seconds_sum",
                "lastcall_flush_seconds_sum",
                "lastcall_flush_used_ratio_sum",
                "lastcall_flushes_total",
            )
            for sample, value in samples(metrics, name).items()
            if value
        ),
    )


def samples(metrics: list[str], name: str) -> dict[str, float]:
    """Return the samples of a series, by its name with its labels."""
    found = {}
    for line in metrics:
        sample, _, value = line.rpartition(" ")
        if sample.partition("{")[0] == name:
            found[sample] = float(value)
    return found
