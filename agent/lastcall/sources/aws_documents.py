"""What the documents of EC2's instance metadata say, without any I/O.

Sources: AWS EC2 user guide, "Spot Instance interruption notices", "EC2 instance rebalance
recommendations" and "Scheduled events for your instances"; EC2 Auto Scaling user guide, "Retrieve
the target lifecycle state through instance metadata".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from lastcall.core.model import Action, Kind, Sighting

SOURCE = "aws"

INSTANCE_ACTION = "spot/instance-action"
TARGET_STATE = "autoscaling/target-lifecycle-state"
REBALANCE = "events/recommendations/rebalance"
SCHEDULED = "events/maintenance/scheduled"

Deadline = Callable[[float], float]
"""Turns a wall time of the provider's, in Unix seconds, into seconds on the monotonic clock."""

FARTHEST_INTERRUPTION_SECONDS = 86400.0
"""An interruption is announced two minutes ahead; a time beyond this is no time."""

_REASON_LIMIT = 200
_WORD_LIMIT = 64

_SPOT_ACTIONS = {action.value: action for action in (Action.TERMINATE, Action.STOP)} | {
    "hibernate": Action.HIBERNATE
}

# A retirement stops an instance whose root is on EBS and terminates one whose root is local; a
# system maintenance reboots it where the power is worked on. The worse of two is assumed.
_EVENT_ACTIONS = {
    "instance-stop": Action.STOP,
    "instance-retirement": Action.TERMINATE,
    "instance-reboot": Action.REBOOT,
    "system-reboot": Action.REBOOT,
    "system-maintenance": Action.REBOOT,
}

_OVER_STATES = ("completed", "canceled", "cancelled")
_OVER_PREFIX = re.compile(r"\[(completed|cancell?ed)\]", re.IGNORECASE)

_TARGET_STATE_FORM = re.compile(r"[A-Za-z]+(:[A-Za-z]+)?")
_RFC3339_FORM = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d.*")


@dataclass(frozen=True, slots=True)
class Reading:
    """What stands under a path.

    Attributes:
        trouble: what in it could not be read; empty where all could.
        whole: everything that stands there is among the sightings.
    """

    sightings: tuple[Sighting, ...] = ()
    trouble: str = ""
    whole: bool = True


def read_instance_action(content: object, deadline: Deadline, now: float) -> Reading:
    """Return what ``spot/instance-action`` says.

    A hibernation begins with its notice, so its deadline is the look itself; any other action has
    the time that is stated. A time that is none leaves the interruption without a deadline.

    Args:
        content: the decoded answer.
        deadline: places the stated time on the monotonic clock.
        now: when the answer came, on the monotonic clock.

    Raises:
        ValueError: the content tells neither an action nor a time.
    """
    fields = _object(content)
    word = _text(fields.get("action"), _WORD_LIMIT)
    stated = fields.get("time")
    if not word and stated is None:
        raise ValueError("neither an action nor a time")
    action = _SPOT_ACTIONS.get(word, Action.UNKNOWN)
    when_unix = parse_time(stated)
    if when_unix is not None and deadline(when_unix) - now > FARTHEST_INTERRUPTION_SECONDS:
        when_unix = None
    ends_at = None if when_unix is None else deadline(when_unix)
    sighting = Sighting(
        source=SOURCE,
        scope=INSTANCE_ACTION,
        key="instance-action",
        kind=Kind.PREEMPTION,
        action=action,
        code=word,
        deadline=now if action is Action.HIBERNATE else ends_at,
        deadline_unix=when_unix,
        reason=f"EC2 takes this Spot Instance back: {word or 'no action named'}",
    )
    trouble = "" if when_unix is not None else f"no usable time: {_shown(stated)}"
    return Reading((sighting,), trouble)


def read_target_state(text: str) -> Reading:
    """Return what ``autoscaling/target-lifecycle-state`` says: ``Terminated``, or nothing of ours.

    It names no time: a lifecycle hook grants one, and it is not told here.

    Raises:
        ValueError: the text is no name of a state.
    """
    state = text.strip()
    if not _TARGET_STATE_FORM.fullmatch(state):
        raise ValueError("no lifecycle state")
    if state != "Terminated":
        return Reading()
    sighting = Sighting(
        source=SOURCE,
        scope=TARGET_STATE,
        key="target-lifecycle-state",
        kind=Kind.TERMINATION,
        action=Action.TERMINATE,
        code=state,
        reason="the Auto Scaling group is about to terminate this instance",
    )
    return Reading((sighting,))


def read_rebalance(content: object) -> Reading:
    """Return what ``events/recommendations/rebalance`` says.

    Its ``noticeTime`` is when the recommendation was made, not when anything happens.

    Raises:
        ValueError: the content names no such time.
    """
    made_at = _text(_object(content).get("noticeTime"), _WORD_LIMIT)
    if not made_at:
        raise ValueError("no noticeTime")
    sighting = Sighting(
        source=SOURCE,
        scope=REBALANCE,
        key="rebalance",
        kind=Kind.REBALANCE,
        action=Action.NONE,
        code="rebalance",
        identity=made_at,
        reason="EC2 sees a raised risk of interruption",
    )
    trouble = "" if parse_time(made_at) is not None else f"no time: noticeTime {_shown(made_at)}"
    return Reading((sighting,), trouble)


def read_scheduled(content: object, deadline: Deadline) -> Reading:
    """Return the events of ``events/maintenance/scheduled`` that are still to come.

    An entry that cannot be read never hides the others. The same event listed twice counts once,
    with its earlier time.

    Args:
        content: the decoded answer.
        deadline: places a stated time on the monotonic clock.

    Raises:
        ValueError: the content is no list.
    """
    if not isinstance(content, list):
        raise ValueError("no list of events")  # noqa: TRY004 — content of others, not a fault of ours
    found: dict[str, Sighting] = {}
    troubles: list[str] = []
    whole = True
    for entry in content:
        key = _event_key(entry)
        if not key:
            troubles.append("an entry that names no event")
            whole = False
            continue
        if _is_over(entry):
            continue
        sighting = _scheduled_event(entry, key, deadline)
        if sighting.deadline is None:
            troubles.append(f"{key}: no time: NotBefore {_shown(entry.get('NotBefore'))}")
        found[key] = _earlier(found.get(key), sighting)
    return Reading(tuple(found.values()), "; ".join(troubles), whole)


def parse_time(value: object) -> float | None:
    """Return the Unix seconds of a time as EC2 writes them, or ``None`` where it is no such time.

    These are RFC 3339, and ``21 Mar 2031 09:00:43 GMT`` in scheduled events, where days of one
    digit occur. A time without a zone is UTC.
    """
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        if _RFC3339_FORM.fullmatch(text):
            moment = datetime.fromisoformat(text.upper())
        else:
            moment = parsedate_to_datetime(text)
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return zoned.timestamp()
    except (ValueError, OverflowError):
        return None


def _event_key(entry: object) -> str:
    if not isinstance(entry, dict):
        return ""
    return _text(entry.get("EventId"), _WORD_LIMIT) or _text(entry.get("Code"), _WORD_LIMIT)


def _is_over(entry: Mapping[str, object]) -> bool:
    """Whether an event is completed or canceled; some stay listed for a while."""
    state = _text(entry.get("State"), _WORD_LIMIT).lower()
    description = _text(entry.get("Description"), _REASON_LIMIT)
    return state in _OVER_STATES or bool(_OVER_PREFIX.match(description))


def _scheduled_event(entry: Mapping[str, object], key: str, deadline: Deadline) -> Sighting:
    code = _text(entry.get("Code"), _WORD_LIMIT)
    not_before_unix = parse_time(entry.get("NotBefore"))
    return Sighting(
        source=SOURCE,
        scope=SCHEDULED,
        key=key,
        kind=Kind.MAINTENANCE,
        action=_EVENT_ACTIONS.get(code, Action.UNKNOWN),
        code=code,
        identity=key,
        deadline=None if not_before_unix is None else deadline(not_before_unix),
        deadline_unix=not_before_unix,
        reason=_text(entry.get("Description"), _REASON_LIMIT),
        cancellable=True,
    )


def _earlier(one: Sighting | None, other: Sighting) -> Sighting:
    if one is None or one.deadline is None:
        return other
    return one if other.deadline is None or one.deadline <= other.deadline else other


def _object(content: object) -> Mapping[str, object]:
    if not isinstance(content, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 — content of others, not a fault of ours
    return content


def _text(value: object, limit: int) -> str:
    """Return a text on one line, cut to a length; anything else is empty."""
    if not isinstance(value, str):
        return ""
    printable = "".join(one if one.isprintable() else " " for one in value)
    return " ".join(printable.split())[:limit]


def _shown(value: object) -> str:
    return repr(value)[:_WORD_LIMIT]
