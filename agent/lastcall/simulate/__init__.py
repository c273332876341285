"""Metadata services to rehearse with, true to the real ones; nothing else of lastcall is used.

One file a provider. A provider's module names its class in ``METADATA``; that alone makes it known.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lastcall.simulate.base import Metadata

_SHARED = frozenset({"base", "faults", "server"})


def providers() -> tuple[str, ...]:
    """Return the names of all providers, without importing any of them."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in names if name not in _SHARED))


def load(provider: str) -> type[Metadata]:
    """Return the class that simulates a provider.

    Args:
        provider: one of :func:`providers`.

    Raises:
        ValueError: there is no such provider.
    """
    if provider not in providers():
        raise ValueError(f"no provider {provider!r}; there are {', '.join(providers())}")
    module = importlib.import_module(f"lastcall.simulate.{provider}")
    metadata: type[Metadata] = module.METADATA
    return metadata
