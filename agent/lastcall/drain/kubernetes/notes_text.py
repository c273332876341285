"""What Kubernetes Events say: reasons, messages for people, and names that do not change."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lastcall.core.facts import FlushSettled, NodeDrained, NoticeEnded, PodMoved
from lastcall.core.model import Action, DeadlineQuality, Kind, Outcome, Urgency
from lastcall.core.views import NoticeView
from lastcall.drain.kubernetes.events import EVENT_MESSAGE_CHARACTERS, ObjectRef

PREEMPTION_NOTICE = "PreemptionNotice"
GPU_FAULT = "GPUFault"
GPU_SOURCE = "gpu"
CHECKPOINT_FLUSHED = "CheckpointFlushed"
CHECKPOINT_MISSED = "CheckpointMissed"
NODE_DRAINED = "NodeDrained"
NOTICE_WITHDRAWN = "NoticeWithdrawn"

FLUSH_REASONS: Mapping[str, str] = {
    Outcome.IN_TIME: CHECKPOINT_FLUSHED,
    Outcome.LATE: CHECKPOINT_FLUSHED,
    Outcome.FAILED: CHECKPOINT_MISSED,
    Outcome.MISSED: CHECKPOINT_MISSED,
    Outcome.NOT_DURABLE: CHECKPOINT_MISSED,
}
"""The reason by a flush's outcome; of the others nothing is said."""

_PART_CHARACTERS = 200
_NAME_PART_CHARACTERS = 100
_NO_NAME = re.compile(r"[^a-z0-9]+")
_LATEST_UNIX = datetime.max.replace(tzinfo=UTC).timestamp() - 1


@dataclass(frozen=True, slots=True)
class Said:
    """What one event says.

    Attributes:
        reason: one of the reasons above.
        action: what is being done, one word in CamelCase.
        message: for people.
        is_warning: ``Warning`` rather than ``Normal``.
    """

    reason: str
    action: str
    message: str
    is_warning: bool


def reason_of(notice: NoticeView | None) -> str:
    """Return the reason for what is said of a notice itself."""
    return GPU_FAULT if notice is not None and notice.kind is Kind.GPU_FAULT else PREEMPTION_NOTICE


def told(notice: NoticeView, clients: int, deadline_unix: float | None) -> Said:
    """Say that the clients are being told of a notice."""
    if not clients:
        asked = "no training process is connected"
    elif notice.urgency is Urgency.NOW:
        asked = f"{_processes(clients)} told to save and stop"
    else:
        asked = f"{_processes(clients)} asked for an early checkpoint"
    is_advice = notice.urgency is Urgency.SOON and notice.kind is not Kind.GPU_FAULT
    message = _marked(notice, f"{_announced(notice, deadline_unix)}; {asked}")
    return Said(reason_of(notice), "Notify", message, is_warning=not (is_advice or notice.drill))


def changed(notice: NoticeView, before: Kind | None, deadline_unix: float | None) -> Said:
    """Say that a notice which was told is of another kind now; ``before`` where that is known."""
    was = "the notice has changed" if before is None else f"before, it was {_words(before)}"
    is_advice = notice.urgency is Urgency.SOON and notice.kind is not Kind.GPU_FAULT
    message = _marked(notice, f"{_announced(notice, deadline_unix)}; {was}")
    return Said(reason_of(notice), "Notify", message, is_warning=not (is_advice or notice.drill))


def overdue(notice: NoticeView, jobs: Mapping[str, Sequence[int | None]]) -> Said:
    """Say at the deadline which processes have not saved, by job and rank."""
    count = sum(len(ranks) for ranks in jobs.values())
    who = "; ".join(_job(job, ranks) for job, ranks in jobs.items())
    have = "1 process has" if count == 1 else f"{count} processes have"
    message = _marked(notice, f"The deadline is here, and {have} not saved: {who}")
    return Said(CHECKPOINT_MISSED, "Checkpoint", message, is_warning=True)


def moved(fact: PodMoved, notice: NoticeView | None, deadline_unix: float | None) -> Said:
    """Say that a pod had to leave, and why; ``notice`` is ``None`` where no more is known of it."""
    why = f"of notice {printable(fact.id)}"
    if notice is not None:
        why = _announced(notice, deadline_unix)
    is_forced = fact.outcome == "forced"
    message = f"{'Deleted' if is_forced else 'Evicted'} because {why}"
    if fact.detail:
        message += f"; {printable(fact.detail)}"
    action = "Delete" if is_forced else "Evict"
    return Said(reason_of(notice), action, _marked(notice, message), is_warning=is_forced)


def flushed(reason: str, facts: Sequence[FlushSettled]) -> Said:
    """Say what came of some flushes for one notice, which all have the same reason."""
    groups: dict[tuple[str, str], list[FlushSettled]] = {}
    for fact in facts:
        groups.setdefault((fact.job, fact.outcome), []).append(fact)
    message = "; ".join(_group(group) for group in groups.values())
    is_missed = reason == CHECKPOINT_MISSED
    return Said(reason, "Checkpoint", _marked(facts[0].notice, message), is_warning=is_missed)


def drained(fact: NodeDrained, notice: NoticeView | None) -> Said:
    """Say how the drain ended."""
    end = "Drained" if fact.outcome == "drained" else f"The drain ended {printable(fact.outcome)}"
    message = f"{end} after {fact.seconds:.1f} s"
    if fact.detail:
        message += f": {printable(fact.detail, EVENT_MESSAGE_CHARACTERS)}"
    is_warning = fact.outcome != "drained"
    return Said(NODE_DRAINED, "Drain", _marked(notice, message), is_warning=is_warning)


def withdrawn(fact: NoticeEnded) -> Said:
    """Say that a notice stands no longer and the machine is still there."""
    what = f"The {_kind(fact.notice)} announced by {_sources(fact.notice)}"
    end = "is over" if fact.ending == "completed" else "was withdrawn"
    if fact.notice.source == GPU_SOURCE:
        what, end = "The trouble of this node's GPUs", "is over"
    message = _marked(fact.notice, f"{what} {end}; the machine stays")
    return Said(NOTICE_WITHDRAWN, "Withdraw", message, is_warning=False)


def event_name(notice_id: str, reason: str, about: ObjectRef, *facts: str) -> str:
    """Return a name for an event: the same for the same words, and another for any others.

    It is valid whatever stands in the id, which is cut and of which other characters are left out;
    a digest of all of it keeps names apart. The UID of a node is no part of it, since that may be
    known only later; a pod's is, since another pod may have had the name.
    """
    uid = about.uid if about.kind == "Pod" else ""
    said = "\n".join((notice_id, reason, about.kind, about.namespace, about.name, uid, *facts))
    digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    named = _NO_NAME.sub("-", notice_id.lower())[:_NAME_PART_CHARACTERS].strip("-")
    return ".".join(("lastcall", *([named] if named else []), reason.lower(), digest))


def fitting(message: str) -> str:
    """Return a message as the server takes it.

    The limit is counted in bytes here, so that it holds however the server counts.
    """
    line = printable(message, EVENT_MESSAGE_CHARACTERS + 1)
    whole = line.encode()
    if len(whole) <= EVENT_MESSAGE_CHARACTERS:
        return line
    return whole[: EVENT_MESSAGE_CHARACTERS - 3].decode("utf-8", "ignore") + "..."


def printable(text: str, limit: int = _PART_CHARACTERS) -> str:
    """Return text from outside as one short line without control characters."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * limit])
    line = " ".join(shown.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def _announced(notice: NoticeView, deadline_unix: float | None) -> str:
    if notice.source == GPU_SOURCE:
        return _gpu_trouble(notice, deadline_unix)
    text = f"{_sources(notice)} announced {_kind(notice)}"
    if notice.action not in {Action.NONE, Action.UNKNOWN}:
        text += f" ({notice.action.value})"
    if deadline_unix is not None:
        is_assumed = notice.deadline_quality is DeadlineQuality.ASSUMED
        text += f" {'expected ' if is_assumed else ''}at {_time(deadline_unix)}"
    return f"{text}: {printable(notice.reason)}" if notice.reason else text


def _gpu_trouble(notice: NoticeView, deadline_unix: float | None) -> str:
    """Return what a notice of our own says: nobody announced it, and the time is what we give."""
    text = "a GPU of this node is degraded"
    if notice.urgency is Urgency.NOW:
        text = "a GPU of this node is faulty"
    if deadline_unix is not None:
        text += f", and processes have until {_time(deadline_unix)} to save"
    return f"{text}: {printable(notice.reason)}" if notice.reason else text


def _group(facts: Sequence[FlushSettled]) -> str:
    """Return what came of the flushes of one job that ended alike."""
    who, outcome = _who(facts), facts[0].outcome
    if outcome in {Outcome.IN_TIME, Outcome.LATE}:
        return f"{who} saved {_where(facts)}{_margin(facts)}"
    if outcome == Outcome.NOT_DURABLE:
        return f"{who} saved {_where(facts)}, which is lost with the machine{_cause(facts)}"
    verb = "could not save" if outcome == Outcome.FAILED else "did not save in time"
    return f"{who} {verb}{_cause(facts)}"


def _who(facts: Sequence[FlushSettled]) -> str:
    job = printable(facts[0].job) or "a training process"
    if len(facts) > 1:
        return f"{job} ({len(facts)} processes)"
    return job if facts[0].rank is None else f"{job} (rank {facts[0].rank})"


def _job(name: str, ranks: Sequence[int | None]) -> str:
    job = printable(name) or ("a training process" if len(ranks) == 1 else "training processes")
    known = sorted({rank for rank in ranks if rank is not None})
    if not known:
        return job if len(ranks) == 1 else f"{job} ({len(ranks)})"
    return f"{job} ({'rank' if len(known) == 1 else 'ranks'} {_spans(known)})"


def _spans(numbers: Sequence[int]) -> str:
    """Return whole numbers in their order, those in a row as one: ``0-7, 9``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ", ".join("-".join(map(str, span)) for span in spans)


def _where(facts: Sequence[FlushSettled]) -> str:
    steps = sorted({fact.step for fact in facts if fact.step is not None})
    paths = list(dict.fromkeys(fact.path for fact in facts if fact.path))
    text = "a checkpoint"
    if steps:
        text = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    if paths:
        text += f" at {printable(paths[0])}"
    if len(paths) > 1:
        text += f" and {len(paths) - 1} more"
    return text


def _margin(facts: Sequence[FlushSettled]) -> str:
    margins = [fact.margin_seconds for fact in facts if fact.margin_seconds is not None]
    if not margins:
        return ""
    least = min(margins)
    side = "before" if least >= 0 else "after"
    return f", {'at worst ' if len(facts) > 1 else ''}{abs(least):.1f} s {side} the deadline"


def _cause(facts: Sequence[FlushSettled]) -> str:
    causes = Counter(fact.cause for fact in facts if fact.cause)
    return f": {printable(causes.most_common(1)[0][0])}" if causes else ""


def _processes(count: int) -> str:
    return "1 training process is" if count == 1 else f"{count} training processes are"


def _kind(notice: NoticeView) -> str:
    return _words(notice.kind)


def _words(kind: Kind) -> str:
    return kind.value.replace("_", " ").replace("gpu", "GPU")


def _sources(notice: NoticeView) -> str:
    return " and ".join(printable(source) for source in notice.sources or (notice.source,))


def _marked(notice: NoticeView | None, message: str) -> str:
    return f"Drill: {message}" if notice is not None and notice.drill else message


def _time(unix: float) -> str:
    at = datetime.fromtimestamp(min(max(unix, 0.0), _LATEST_UNIX), UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
