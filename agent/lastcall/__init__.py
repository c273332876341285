"""The training side of lastcall; needs the standard library alone.

The client is loaded at its first use, so that `import lastcall` costs next to nothing in the
programs that never call it, the agent's own commands among them.
"""

from lastcall._version import __version__

TYPE_CHECKING = False  # known to type checkers by name; `typing` itself is slow to import
if TYPE_CHECKING:
    from lastcall.client import Advice, Flush, Guard, Identity, Notice, connect

EXIT_PREEMPTED = 143
"""Exit code of a process that stopped for a notice after its checkpoint: 128 + SIGTERM.

Schedulers read it as "terminated, not finished". torchrun turns every worker's code into 1 (its
`ChildFailedError`), so behind it the code alone does not tell.
"""

__all__ = [
    "EXIT_PREEMPTED",
    "Advice",
    "Flush",
    "Guard",
    "Identity",
    "Notice",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lastcall import client  # noqa: PLC0415 - loaded at first use, see above

    value: object = getattr(client, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
