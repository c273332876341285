"""What the chart has from elsewhere is as it is there, and its reference lists every value."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import msgspec
import pytest

from lastcall import __version__
from support.helm import CHART, helm

ROOT = CHART.parents[1]
HOW_TO = (ROOT / "docs/how-to/install-on-kubernetes.md").read_text(encoding="utf-8")
SET_IN_THE_GUIDE = sorted(set(re.findall(r"--set ([^\s`]+)", HOW_TO)))


def _load(path: Path):
    spec = importlib.util.spec_from_file_location(f"tools_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = _load(ROOT / "tools/chart.py")
VALUES = list(TOOL.values())


@pytest.mark.parametrize("path", TOOL.FILES, ids=lambda path: path.name)
def test_a_file_made_from_others_is_as_they_make_it(path):
    assert path.read_text(encoding="utf-8") == TOOL.FILES[path](), "say: python tools/chart.py"


def test_the_chart_is_for_this_version_of_the_agent():
    chart = msgspec.yaml.decode((CHART / "Chart.yaml").read_bytes())
    assert chart["appVersion"] == __version__


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.path)
def test_a_value_says_what_it_means_and_is_used(value):
    assert value.meaning.endswith(".")
    templates = "".join(
        path.read_text(encoding="utf-8")
        for path in CHART.glob("templates/**/*")
        if path.suffix in {".yaml", ".tpl", ".txt"}
    )
    assert re.search(rf"\b{value.path.rsplit('.', 1)[-1]}\b", templates)


@pytest.mark.parametrize("pair", SET_IN_THE_GUIDE)
def test_what_the_guide_says_to_set_can_be_set(pair):
    rendered = helm("template", "lastcall", CHART, "--set", pair.replace("PORT", "19855"))
    assert rendered.returncode == 0, rendered.stderr
