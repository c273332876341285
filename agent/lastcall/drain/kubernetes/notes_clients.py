"""Which job and rank a training process is, by the name that facts have for it."""

from __future__ import annotations

from collections.abc import Iterable

from lastcall.core.facts import ClientCame, ClientWent

KNOWN_CLIENTS = 4096
"""How many are remembered; a node has a few for each accelerator."""


class KnownClients:
    """Remembers the processes that have come and may still be asked for something."""

    def __init__(self) -> None:
        self._ranks: dict[str, tuple[str, int | None]] = {}

    def note(self, fact: ClientCame | ClientWent) -> None:
        """Take note of one that said hello or left; whose connection is lost is still there."""
        if isinstance(fact, ClientCame):
            self._came(fact)
        else:
            self._went(fact)

    def _came(self, fact: ClientCame) -> None:
        self._ranks[fact.client] = (fact.job, fact.rank)
        if len(self._ranks) > KNOWN_CLIENTS:
            del self._ranks[next(iter(self._ranks))]

    def _went(self, fact: ClientWent) -> None:
        if fact.how != "lost":
            self._ranks.pop(fact.client, None)

    def by_job(self, clients: Iterable[str]) -> dict[str, list[int | None]]:
        """Return the ranks by job; what is not known any more is of no job and no rank."""
        jobs: dict[str, list[int | None]] = {}
        for client in clients:
            job, rank = self._ranks.get(client, ("", None))
            jobs.setdefault(job, []).append(rank)
        return jobs
