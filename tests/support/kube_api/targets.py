"""What a path of the API means: group, resource, namespace, name and subresource."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """What a call is about; the parts it lacks are empty."""

    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def full(self) -> str:
        """The resource with its subresource."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def qualified(self) -> str:
        """The same with its group, as rights name it."""
        return f"{self.full}.{self.group}" if self.group else self.full


def target_of(path: str) -> Target | None:
    """Return what a path means; ``None`` where it is about no resource."""
    parts = [part for part in path.split("/") if part]
    group = ""
    if parts[:2] == ["api", "v1"]:
        rest = parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        return None
    resource, name, subresource = [*rest, "", ""][:3]
    return Target(group, resource, namespace, name, subresource)
