"""One request to the fake API server, as its handlers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.kube_api.identities import Identity
from support.kube_api.targets import Target


@dataclass(frozen=True)
class Asking:
    """Who wants what of which object."""

    verb: str
    target: Target
    identity: Identity
    query: Mapping[str, str]
    body: Any
    content_type: str

    @property
    def dry_run(self) -> bool:
        """Nothing is to change."""
        options = self.body if isinstance(self.body, dict) else {}
        return self.query.get("dryRun") == "All" or options.get("dryRun") == ["All"]

    @property
    def selected_node(self) -> str:
        """The node of the field selector; empty for none."""
        selector = self.query.get("fieldSelector", "")
        return selector.removeprefix("spec.nodeName=") if selector.startswith("spec.") else ""
