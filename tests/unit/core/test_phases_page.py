"""The page on the phases says what the table says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from lastcall.core.machine import TABLE
from lastcall.core.model import Phase

TOOL = runpy.run_path(str(Path(__file__).resolve().parents[3] / "tools/diagram.py"))


def test_the_page_is_as_the_table_is() -> None:
    page: Path = TOOL["PAGE"]

    assert page.read_text(encoding="utf-8") == TOOL["page"](), "say: python tools/diagram.py"


def test_the_diagram_has_an_edge_for_every_row() -> None:
    drawn = re.findall(r"^    (\w+) --> (\w+): (.+)$", TOOL["diagram"](), re.MULTILINE)

    assert drawn == [
        (phase, row.to or phase, row.when.__name__.replace("_", " "))
        for phase, rows in TABLE.items()
        for row in rows
    ]


def test_the_page_explains_every_phase_and_every_row() -> None:
    page = TOOL["page"]()

    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [phase.capitalize() for phase in Phase]
    for rows in TABLE.values():
        for row in rows:
            assert (row.when.__doc__ or "").split(".")[0] in page
            assert (row.then.__doc__ or "").split(".")[0] in page
