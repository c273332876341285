"""Where a setting's value came from."""

from dataclasses import dataclass
from typing import Literal

Layer = Literal["default", "file", "environment", "flag"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The layer that a value came from, and its place there.

    Attributes:
        where: ``FILE:LINE``, the environment variable's name or the flag with its key. For a
            default it is empty, or says what the default was taken from.
    """

    layer: Layer
    where: str = ""

    def __str__(self) -> str:
        """Return it as it stands in errors and beside values."""
        match self.layer:
            case "file":
                return self.where
            case "default":
                return f"default, from {self.where}" if self.where else "default"
            case _:
                return f"{self.layer} {self.where}"


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Given:
    """A value as some layer gives it, not yet checked, for a key that exists."""

    key: str
    value: object
    origin: Origin
