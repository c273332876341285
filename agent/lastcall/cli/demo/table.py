"""The two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.cli.demo.outcome import Flushes, Outcome
from lastcall.cli.terminal import Style, columns

_NONE = "-"


def render(without: Outcome, with_agent: Outcome, flushes: Flushes, style: Style) -> list[str]:
    """Return the lines of the table."""
    heading, *lines = columns(
        [["", "without lastcall", "with lastcall"], *_rows(without, with_agent, flushes, style)],
        indent="  ",
    )
    return [style.bold(heading), *lines]


def _rows(
    without: Outcome, with_agent: Outcome, flushes: Flushes, style: Style
) -> Iterator[list[str]]:
    both = (without, with_agent)
    yield ["resumed from step", *(str(run.resumed_from) for run in both)]
    yield ["steps redone", *(_zero_is_good(run.steps_redone, "", style) for run in both)]
    yield ["seconds lost", *(_zero_is_good(run.lost_seconds, " s", style) for run in both)]
    assumed = " (assumed)" if flushes.lead_assumed else ""
    yield ["lead time", _NONE, f"{flushes.lead_seconds:.2f} s{assumed}"]
    yield ["told after", _NONE, f"{flushes.told_after_seconds:.2f} s"]
    yield ["flushed after", _NONE, f"{flushes.flushed_after_seconds:.2f} s"]
    yield ["margin", _NONE, f"{flushes.margin_seconds:.2f} s"]
    yield [
        "final state verified",
        *(style.good("yes") if run.verified else style.bad("no") for run in both),
    ]


def _zero_is_good(value: float, unit: str, style: Style) -> str:
    text = f"{value}{unit}" if isinstance(value, int) else f"{value:.2f}{unit}"
    return style.warning(text) if value else style.good(text)
