"""What is said of a drain: how it ended, and where each pod stands while it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lastcall.drain.kubernetes.drain_outlook import Outlook, State
from lastcall.drain.kubernetes.drain_past import NOTHING, News, Past
from lastcall.drain.kubernetes.pods import PodClass
from lastcall.drain.kubernetes.reply import Outcome, Reply

DETAIL_CHARACTERS = 4000
"""A result has at most so many; it stands in the log, and an Event shows its beginning."""

CAUSE_CHARACTERS = 160
"""Of one pod's cause, where few pods are named."""

LEAST_CAUSE_CHARACTERS = 24
"""Of one pod's cause, where many are."""

NAMED_PODS = 50
"""So many pods find room in a result, unless their names are long."""

ROWS = 100
"""So many pods are shown, those first that are still to leave."""

_STAYING_CHARACTERS = 3400
_KEPT_CHARACTERS = 450
_NO_HELP = (
    Outcome.UNKNOWN,
    Outcome.THROTTLED,
    Outcome.UNAUTHORIZED,
    Outcome.FORBIDDEN,
    Outcome.EXPIRED,
)
_ORDER = (
    State.FAILED,
    State.BLOCKED,
    State.STUCK,
    State.ASKING,
    State.WAITING,
    State.LEAVING,
    State.KEPT,
    State.GONE,
    State.FINISHED,
)


@dataclass(frozen=True, slots=True)
class Tally:
    """How the server has answered when pods were asked to leave.

    Attributes:
        asked: calls that have ended.
        heard: those of them that were answered by something else than a refusal of the caller, or
            a word that the server is busy.
        trouble: why the last of the others was not.
    """

    asked: int = 0
    heard: int = 0
    trouble: str = ""

    def counting(self, reply: Reply) -> Tally:
        """Return the tally with one more answer."""
        if reply.outcome in _NO_HELP:
            return replace(self, asked=self.asked + 1, trouble=reply.cause_text)
        return replace(self, asked=self.asked + 1, heard=self.heard + 1)


@dataclass(frozen=True, slots=True)
class Result:
    """How a drain ended: ``drained``, ``incomplete`` or ``failed``, and what there is to say."""

    outcome: str
    detail: str


def result_of(
    outlooks: Iterable[Outlook], tally: Tally, *, is_listed: bool, list_trouble: str
) -> Result:
    """Return how a drain ended.

    Args:
        outlooks: where each pod stands.
        tally: how the server has answered.
        is_listed: it is known which pods there are.
        list_trouble: why they could not be listed, where that is so.
    """
    if not is_listed:
        why = list_trouble or "no answer came in time"
        return Result("failed", _cut(f"the node's pods could not be listed: {why}"))
    outlooks = sorted(outlooks, key=_rank)
    concerned = [one for one in outlooks if _concerns(one)]
    staying = [one for one in concerned if not one.state.is_off]
    kept = [one for one in outlooks if one.pod_class is PodClass.OPTED_OUT]
    if not staying:
        parts = [_left(concerned)]
    elif tally.asked and not tally.heard:
        parts = [f"the API server moves no pod: {_short(tally.trouble)}", _not_left(staying)]
    else:
        parts = [f"{len(staying)} of {len(concerned)} pods have not left", _not_left(staying)]
    outcome = "drained"
    if staying:
        outcome = "failed" if tally.asked and not tally.heard else "incomplete"
    text = ": ".join(part for part in parts if part)
    if kept:
        text += f"; left alone by their annotation: {_named(kept)}"
    return Result(outcome, _cut(text))


def left_behind(outlooks: Iterable[Outlook], pasts: Mapping[str, Past]) -> list[News]:
    """Return what is to be reported at the end of the pods that have not left.

    Of a pod of which it was accepted that it leaves nothing more is said.
    """
    return [
        News(one.pod, "failed", _standing(one))
        for one in outlooks
        if _concerns(one)
        and not one.state.is_off
        and not pasts.get(one.pod.uid, NOTHING).leave_is_said
    ]


def rows(outlooks: Iterable[Outlook]) -> list[Mapping[str, str]]:
    """Return the pods as they are shown, those first that are still to leave."""
    shown = (one for one in sorted(outlooks, key=_rank) if _concerns(one) or _is_kept_by_wish(one))
    return [
        {
            "pod": one.pod.full_name,
            "class": one.pod_class.value,
            "state": one.state.value,
            "detail": _short(_detail(one)),
        }
        for one, _ in zip(shown, range(ROWS), strict=False)
    ]


def still_to_leave(outlooks: Iterable[Outlook]) -> int:
    """Return how many pods have not left yet."""
    return sum(not one.state.is_off for one in outlooks)


def _concerns(one: Outlook) -> bool:
    """Whether a pod is, or was, to leave."""
    return one.pod_class.leaves or one.state is State.GONE


def _is_kept_by_wish(one: Outlook) -> bool:
    return one.pod_class is PodClass.OPTED_OUT


def _rank(one: Outlook) -> tuple[int, str]:
    return _ORDER.index(one.state), one.pod.full_name


def _left(concerned: list[Outlook]) -> str:
    gone = [one for one in concerned if one.state is State.GONE]
    if not gone:
        return "no pod was to leave"
    bare = sum(not one.pod.owner for one in gone)
    said = "1 pod has left" if len(gone) == 1 else f"{len(gone)} pods have left"
    return said + (f", {bare} of them bare, which nothing recreates" if bare else "")


def _not_left(staying: list[Outlook]) -> str:
    each = _STAYING_CHARACTERS // min(len(staying), NAMED_PODS)
    return _joined([_entry(one, each) for one in staying], _STAYING_CHARACTERS)


def _entry(one: Outlook, characters: int) -> str:
    """Return a pod's name and standing, in about so many characters."""
    taken = len(f"{one.pod.full_name} ({one.state.value}: ), ")
    cause = min(CAUSE_CHARACTERS, max(LEAST_CAUSE_CHARACTERS, characters - taken))
    return f"{one.pod.full_name} ({_standing(one, cause)})"


def _named(kept: list[Outlook]) -> str:
    return _joined([one.pod.full_name for one in kept], _KEPT_CHARACTERS)


def _standing(one: Outlook, characters: int = CAUSE_CHARACTERS) -> str:
    detail = _short(_detail(one), characters)
    return f"{one.state.value}: {detail}" if detail else one.state.value


def _detail(one: Outlook) -> str:
    bare = "" if one.pod.owner or one.state.is_off else "bare, nothing recreates it"
    return "; ".join(part for part in (one.detail, bare) if part)


def _joined(texts: list[str], room: int) -> str:
    """Return as many of the texts as have room, and how many more there are."""
    shown: list[str] = []
    for text in texts:
        room -= len(text) + 2
        if room < 0 and shown:
            break
        shown.append(text)
    more = len(texts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _short(text: str, characters: int = CAUSE_CHARACTERS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


def _cut(text: str) -> str:
    return text if len(text) <= DETAIL_CHARACTERS else text[: DETAIL_CHARACTERS - 1] + "…"
