"""Checks Slurm: whether this machine is a node of it, and what its controller says of the node."""

from __future__ import annotations

import os

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.drain.slurm.calls import SlurmCalls, SlurmError, UnknownNodeError
from lastcall.drain.slurm.name import NodeName
from lastcall.drain.slurm.presence import found as finds_slurm
from lastcall.drain.slurm.text import NodeState

CHECK = "slurm"

CALL_SECONDS = 2.5
"""How long one command may take: three in a row end within the time of a check."""

_SET_NAME = "set drain.slurm.node_name to the node's name in slurm.conf"


async def check_slurm(subject: Subject, found: Findings) -> None:
    """Add which node this is; nothing where Slurm is neither configured nor there."""
    drain = subject.loaded.config.drain
    if drain.backend != "slurm" and not (drain.backend == "auto" and finds_slurm()):
        return
    calls = SlurmCalls(min(CALL_SECONDS, drain.slurm.call_seconds), os.environ)
    try:
        name = await NodeName(drain.slurm.node_name, calls, os.environ).get()
    except SlurmError as error:
        found.problem(CHECK, f"this node's name is not known: {error}", _SET_NAME)
        return
    try:
        state = await calls.node(name)
    except UnknownNodeError:
        found.problem(CHECK, f"the controller knows no node {name}", _SET_NAME)
    except SlurmError as error:
        found.problem(
            CHECK,
            f"the controller does not say how node {name} stands: {error}",
            "let this machine reach slurmctld: slurm.conf, the munge key, the clock, the network",
        )
    else:
        _say(name, state, found)


def _say(name: str, state: NodeState, found: Findings) -> None:
    why = f": {state.reason}" if state.reason else ""
    if state.is_down:
        found.warning(
            CHECK, f"node {name} is {state}{why}", "find out why it is down: scontrol show node"
        )
    elif state.is_drained:
        found.note(CHECK, f"node {name} is {state}{why}: it takes no new jobs")
    else:
        found.ok(CHECK, f"node {name} is {state}")
