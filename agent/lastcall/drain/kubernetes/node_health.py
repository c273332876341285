"""How the API server answers, what the agent may do there, and what is amiss, said in one event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lastcall.core.events import BackendChecked
from lastcall.drain.base import Post
from lastcall.drain.kubernetes.reply import Outcome
from lastcall.drain.kubernetes.rights import DRY_RUN, RightFinding

_NO_ANSWER = {Outcome.UNKNOWN, Outcome.UNAUTHORIZED}
"""With these nothing can be had of the server; after any other answer, something can."""


class Health:
    """Tells the core whatever it should know of the API server; the core drops repeats.

    Args:
        post: takes the events.
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._up: bool | None = None
        self._trouble = ""
        self._notes: dict[str, str] = {}
        self._rights: dict[str, bool] = {}

    @property
    def detail(self) -> str:
        """All that is amiss, in one line."""
        return "; ".join(text for text in (self._trouble, *self._notes.values()) if text)

    def answered(self, outcome: Outcome, trouble: str = "") -> None:
        """Take in what came of a call, with what is wrong where it failed."""
        self._up, self._trouble = outcome not in _NO_ANSWER, trouble
        self._say()

    def useless(self, why: str) -> None:
        """Take in why nothing can be had of the server, though it answers."""
        self._up, self._trouble = False, why
        self._say()

    def note(self, topic: str, text: str) -> None:
        """Take in what stays amiss while calls are answered; an empty text ends it."""
        if self._notes.get(topic, "") != text:
            self._notes[topic] = text
            self._say()

    def reviewed(self, findings: Sequence[RightFinding]) -> None:
        """Take in what may be done; what could not be found out stays as it was known."""
        self._rights |= {one.right: one.allowed for one in findings if one.allowed is not None}
        denied = [one for one in findings if one.allowed is False]
        self._notes["rights"] = "; ".join(map(_denial, denied))
        self._say()

    def status(self) -> Mapping[str, Any]:
        """Return what is shown of it."""
        api = {None: "unknown", True: "up", False: "down"}[self._up]
        return {"api": api, "detail": self.detail, "rights": dict(self._rights)}

    def _say(self) -> None:
        if self._up is not None:
            rights = tuple(self._rights.items()) or None
            self._post(BackendChecked(self._up, self.detail, rights))


def _denial(finding: RightFinding) -> str:
    if finding.right == DRY_RUN:
        return f"the cordon would be refused: {finding.detail}"
    return f"no right to {finding.right}: {finding.detail}"
