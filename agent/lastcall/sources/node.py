"""Kubernetes: what other controllers put on the own node, as early notices.

The watch of the node object is the drain backend's; this source is shown every version of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from lastcall.core.events import SourcePolled, SourceReported
from lastcall.core.model import Sighting
from lastcall.sources.base import Clock, Post
from lastcall.sources.node_marks import Mark, read_marks
from lastcall.sources.node_signs import SIGNS, Sign

SCOPE = "node"

PAST_SECONDS = 3600.0
"""A time that is longer past than this is left over from something that did not happen."""

AHEAD_SECONDS = 366 * 86400.0
"""A time that is farther ahead than this is none that a controller meant."""

_ABSENCES_NEVER_COUNT = sys.maxsize
_IDENTITY_LIMIT = 128
_SHOWN_LIMIT = 200


class NodeSource:
    """Reads the signs off the node object, whatever state that is in.

    Args:
        post: takes the events.
        clock: the node's clocks.
        signs: what counts as a sign; of those that match a mark, the first holds.
    """

    name = "node"

    def __init__(self, post: Post, clock: Clock, signs: Sequence[Sign] = SIGNS) -> None:
        self._post = post
        self._clock = clock
        self._signs = signs
        self._standing: dict[str, Sighting] = {}
        self._reported: tuple[tuple[Sighting, ...], int] | None = None

    def see(self, node: object) -> None:
        """Take in the node object as it is now, and report its signs where they have changed.

        What it does not show any more is withdrawn, unless it cannot be read whole.

        Args:
            node: the decoded object, as the API server sends it.
        """
        try:
            read = read_marks(node)
        except ValueError as error:
            self._polled("malformed", str(error))
            return
        seen = self._sightings(read.marks)
        # An entry that cannot be read may be the very one that seems to be absent.
        absences = _ABSENCES_NEVER_COUNT if read.troubles else 1
        self._standing = self._standing | seen if read.troubles else seen
        self._report(tuple(seen.values()), absences)
        result = "notice" if seen else "ok"
        self._polled("malformed" if read.troubles else result, "; ".join(read.troubles))

    def unseen(self, detail: str, result: str = "error") -> None:
        """Say that the node object cannot be seen at present; nothing is withdrawn for it.

        Args:
            detail: why.
            result: the kind of trouble, in the words of ``lastcall_source_polls_total``.
        """
        self._polled(result, detail)

    def _sightings(self, marks: Sequence[Mark]) -> dict[str, Sighting]:
        """Return what the marks mean, by code and in the order of the signs."""
        found: dict[str, list[tuple[Sign, Mark]]] = {}
        unclear: set[str] = set()
        for mark in marks:
            sign = next((sign for sign in self._signs if sign.matches(mark)), None)
            if sign is not None:
                found.setdefault(sign.code, []).append((sign, mark))
            elif mark.status == "Unknown":
                unclear.update(sign.code for sign in self._signs if sign.speaks_of(mark))
        seen: dict[str, Sighting] = {}
        for code in dict.fromkeys(sign.code for sign in self._signs):
            before = self._standing.get(code)
            if code in found:
                seen[code] = self._sighting(found[code], before)
            elif before is not None and code in unclear:
                # Unknown is not clear.
                seen[code] = before
        return seen

    def _sighting(self, found: list[tuple[Sign, Mark]], before: Sighting | None) -> Sighting:
        """Return what the marks of one code say together."""
        sign = found[0][0]
        started = any(one.has_started(mark) for one, mark in found)
        times = (one.deadline(mark.value) for one, mark in found)
        plausible = [time for time in times if time is not None and self._is_plausible(time)]
        # What has started keeps the deadline that an earlier look gave it.
        deadline_unix = min(plausible, default=None) if not started else None
        return Sighting(
            source=self.name,
            scope=SCOPE,
            key=sign.code,
            kind=sign.kind,
            action=sign.action,
            code=sign.code,
            identity=_identity([one.occurrence(mark) for one, mark in found], before),
            deadline=None if deadline_unix is None else self._deadline(deadline_unix),
            deadline_unix=deadline_unix,
            reason=sign.reason,
            cancellable=sign.cancellable and not started,
            started=started,
        )

    def _is_plausible(self, unix: float) -> bool:
        return -PAST_SECONDS <= unix - self._clock.wall() <= AHEAD_SECONDS

    def _deadline(self, unix: float) -> float:
        return self._clock.monotonic() + (unix - self._clock.wall())

    def _report(self, sightings: tuple[Sighting, ...], absences: int) -> None:
        """Report what stands, unless nothing but the time has changed: reports are kept on disk."""
        said = (tuple(replace(one, deadline=None) for one in sightings), absences)
        if said != self._reported:
            self._reported = said
            self._post(SourceReported(self.name, SCOPE, sightings, absences))

    def _polled(self, result: str, detail: str = "") -> None:
        self._post(SourcePolled(self.name, result, SCOPE, detail[:_SHOWN_LIMIT]))


def _identity(names: list[str], before: Sighting | None) -> str:
    """Return what names the occurrence.

    While something stands it keeps its name, or its lack of one, until it bears only others: a
    mark may lose its name when the event starts, and a second mark of the same may bring one.
    """
    known = {name for name in names if _may_name(name)}
    if before is not None and (before.identity in known or not before.identity or not known):
        return before.identity
    return max(known, default="")


def _may_name(text: str) -> bool:
    """Whether a text can name something in a journal; what no controller writes cannot."""
    return 0 < len(text) <= _IDENTITY_LIMIT and text.isascii() and text.isprintable()
