"""Draws the table of phases as the program has it: ``python tools/diagram.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from lastcall.core.machine import TABLE, Row
from lastcall.core.model import Phase

PAGE = Path(__file__).resolve().parent.parent / "docs/explanation/phases.md"

_HEAD = """\
# The phases of a notice

<!-- Made by tools/diagram.py from agent/lastcall/core/machine.py; change it there. -->

A notice is one thing that is about to happen to the node, whoever reports it and however often. It
is always in one of six phases. What moves it from one to the next stands in a single table, which
this page is made from.

After every event, and at every moment that the machine asked to be woken at, the rows of a notice's
phase are tried from the top. The first whose condition holds is taken: its step is done, and the
notice goes on to the phase it names. This is repeated on all open notices until no row fires, so
that a phase never depends on the order in which news came in.
"""

_PHASES = {
    Phase.SEEN: (
        "A source reports it, and nobody has been told. Most notices pass through in the same "
        "instant; an event that is planned days ahead waits here until its time has come, and what "
        "is only to be shown stays here."
    ),
    Phase.TOLD: (
        "Every training process has been sent it, and each that comes later is greeted with it. "
        "None has said yet that it has begun to flush."
    ),
    Phase.FLUSHING: "At least one training process is saving.",
    Phase.DRAINING: (
        "Work is being moved off the node, or has been. A flush that is not over may still come "
        "in, until a little after the deadline."
    ),
    Phase.DONE: (
        "It is over, and took its course. While a source still lists it, it stays known, so that "
        "it is not taken for a new one."
    ),
    Phase.WITHDRAWN: (
        "It no longer stands: the provider took it back, or a stronger notice took its place. "
        "Those that had been told have been told this too."
    ),
}

_TAIL = """\
## What stands outside the table

- Reports of several sources about the same end fold into one notice, and only the source that made
  a claim can let it go. The earliest deadline counts, stated or assumed.
- How one process's flush is judged: `in_time`, `late`, `failed`, `missed`, `not_durable`,
  `ignored` or `withdrawn`, and never more than one of them.
- The cordon belongs to the node and not to one notice. It is asked for when a notice that drains
  is told, and given back once nothing that asked for it is reported any more.
- A restart of the agent replays its journal and changes no phase. A reboot of the machine ends
  what was open.
"""


def page() -> str:
    """Return the page, in Markdown."""
    return "\n".join([_HEAD, diagram(), *_sections(), _TAIL])


def diagram() -> str:
    """Return the table as a Mermaid diagram."""
    edges = (
        f"    {phase} --> {row.to or phase}: {_name(row.when)}"
        for phase, rows in TABLE.items()
        for row in rows
    )
    ends = (f"    {phase} --> [*]" for phase, rows in TABLE.items() if not rows)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Phase.SEEN}", *edges, *ends, "```", ""]
    return "\n".join(lines)


def _sections() -> Iterator[str]:
    for phase, rows in TABLE.items():
        yield f"## {phase.capitalize()}\n\n{_PHASES[phase]}\n"
        if rows:
            yield _rows(rows)


def _rows(rows: tuple[Row, ...]) -> str:
    lines = ["| condition | it holds when | then | and it is |", "|---|---|---|---|"]
    for row in rows:
        to = row.to or "as before"
        lines.append(f"| {_name(row.when)} | {_said(row.when)} | {_said(row.then)} | {to} |")
    return "\n".join(lines) + "\n"


def _name(function: Callable[..., object]) -> str:
    return function.__name__.replace("_", " ")


def _said(function: Callable[..., object]) -> str:
    text = (function.__doc__ or "").partition("\n")[0].removesuffix(".")
    if not text:
        raise ValueError(f"{function.__name__} says nothing of itself")
    return text.replace("|", r"\|")


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.name)


if __name__ == "__main__":
    main()
