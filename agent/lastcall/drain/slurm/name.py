"""What the node is called in Slurm: as configured, or as its slurmd has it; never a guess."""

from __future__ import annotations

from collections.abc import Mapping

from lastcall.drain.slurm.calls import REMEDY, SlurmCalls, SlurmError
from lastcall.drain.slurm.text import is_name


class NodeName:
    """Finds the name out, once.

    The host's name says nothing: ``NodeName`` and ``NodeHostname`` differ in many clusters, and one
    host may be several nodes (slurm.conf(5)).

    Args:
        configured: the name; empty to have it found.
        calls: how Slurm is asked.
        environment: the agent's own; what slurmd starts has its name there.

    Attributes:
        known: the name; empty while it is not known.
    """

    def __init__(self, configured: str, calls: SlurmCalls, environment: Mapping[str, str]) -> None:
        started_by = environment.get("SLURMD_NODENAME", "")
        self.known = configured or (started_by if is_name(started_by) else "")
        self._calls = calls

    async def get(self) -> str:
        """Return the name.

        Raises:
            SlurmError: it cannot be found out.
        """
        if not self.known:
            self.known = await self._find()
        return self.known

    async def _find(self) -> str:
        try:
            names = await self._calls.aliases()
        except SlurmError:
            # The configuration has no node for this host; one that registers by itself is in none.
            names = ()
        if len(names) > 1:
            raise SlurmError(f"this host is {', '.join(names)} in slurm.conf: {REMEDY}")
        if names:
            return names[0]
        try:
            return await self._calls.slurmd_name()
        except SlurmError as error:
            raise SlurmError(
                f"slurm.conf has no node on this host, and {error}: {REMEDY}"
            ) from None
