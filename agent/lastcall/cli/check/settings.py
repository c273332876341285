"""Checks the configuration itself: where it comes from, and what in it deserves a second look."""

from __future__ import annotations

from collections import Counter

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.config.explain import pending_settings
from lastcall.config.load import DEFAULT_FILE, Loaded
from lastcall.config.provenance import Layer

CHECK = "configuration"
NODE_NAME = "node_name"

_LAYERS: dict[Layer, str] = {
    "file": "set by it",
    "environment": "by the environment",
    "flag": "by flags",
}


async def check_settings(subject: Subject, found: Findings) -> None:
    """Add where the settings come from, and those without effect; that they load is known."""
    loaded = subject.loaded
    found.ok(CHECK, _sources(loaded))
    for setting in pending_settings(loaded):
        found.warning(
            CHECK,
            f"{setting.key.path} ({setting.origin}) is not in effect in this version",
            "take it out: what it asks for is not done",
        )
    if loaded.config.mode == "observe":
        found.note(CHECK, "mode is observe: processes are told, and nothing is cordoned or drained")


async def check_node_name(subject: Subject, found: Findings) -> None:
    """Add what the node is called, and who says so."""
    name, origin = subject.loaded.config.node_name, subject.loaded.origins["node_name"]
    if name.partition(".")[0] == "localhost":
        found.warning(
            NODE_NAME,
            f"{name} ({origin}) tells this node from no other",
            "set node_name, or the host's name",
        )
    else:
        found.ok(NODE_NAME, f"{name} ({origin})")


def _sources(loaded: Loaded) -> str:
    counts = Counter(origin.layer for origin in loaded.origins.values())
    file = str(loaded.file) if loaded.file else f"no file ({DEFAULT_FILE} is not there)"
    given = [f"{counts[layer]} {words}" for layer, words in _LAYERS.items() if counts[layer]]
    return f"{file}; settings: {', '.join(given) or 'all at their defaults'}"
