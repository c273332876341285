"""The documentation keeps up with the program, and its links lead somewhere."""

from __future__ import annotations

import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest

import lastcall

ROOT = Path(__file__).resolve().parents[2]
PAGES = runpy.run_path(str(ROOT / "tools/docs.py"))["PAGES"]
MARKDOWN = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_made_from_the_program_is_as_the_program_makes_it(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page](), "say: python tools/docs.py"


def test_the_clients_page_has_every_public_member_and_no_other() -> None:
    page = (ROOT / "docs/reference/client.md").read_text(encoding="utf-8")
    members = {
        f"{kind.__name__.lower()}.{name}"
        for kind in (lastcall.Guard, lastcall.Flush, lastcall.Notice)
        for name, member in vars(kind).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    }
    assert set(re.findall(r"^### `(.+)`$", page, re.MULTILINE)) == members
    assert "## `lastcall.connect`" in page
    assert not re.search(r":\w+:`|(?<!`)``\w", page), "the docstrings' own markup"
    for field in fields(lastcall.Notice):
        assert f"- `{field.name}`: " in page


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []
