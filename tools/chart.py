"""Writes what the chart has from elsewhere, and its reference page: ``python tools/chart.py``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lastcall.config.explain import json_schema

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "helm/lastcall"
VALUES = CHART / "values.yaml"
SCHEMA = CHART / "values.schema.json"

_HEAD = """\
# Values of the chart

<!-- Made by tools/chart.py from helm/lastcall/values.yaml; change it there. -->

Set them with `--set KEY=VALUE`, or in a file with `--values FILE`; `helm/lastcall/examples` has
files for EKS, GKE and AKS. A key that does not exist and a value of the wrong type are refused
before anything is installed; `config` is held to the agent's own [configuration](configuration.md).
[Install on Kubernetes](../how-to/install-on-kubernetes.md) says what each privilege is for.

| value | default | meaning |
|---|---|---|
"""

_COMMENT = re.compile(r"^ *# ?(?P<begins>-- )?(?P<text>.*)$")
_KEY = re.compile(r"^(?P<indent> *)(?P<name>\w+):(?: |$)")


@dataclass(frozen=True)
class Value:
    """One value of the chart.

    Attributes:
        path: such as ``image.tag``.
        default: as it stands in values.yaml.
        meaning: its comment, in one line.
    """

    path: str
    default: Any
    meaning: str


def values() -> Iterator[Value]:
    """Yield every value that has a comment beginning with ``--`` above it.

    Raises:
        ValueError: one has none, nor has a table that it is in.
    """
    text = VALUES.read_text(encoding="utf-8")
    defaults = msgspec.yaml.decode(text.encode())
    meanings = dict(_meanings(text))
    for path, default in _leaves(defaults, "", meanings):
        if path not in meanings:
            raise ValueError(f"values.yaml: {path} has no comment that begins with # --")
        yield Value(path, default, meanings[path])


def _leaves(
    table: Mapping[str, Any], prefix: str, meanings: Mapping[str, str]
) -> Iterator[tuple[str, Any]]:
    """Yield paths and defaults; a table with a comment of its own is one value."""
    for name, default in table.items():
        path = prefix + name
        if isinstance(default, dict) and path not in meanings:
            yield from _leaves(default, f"{path}.", meanings)
        else:
            yield path, default


def _meanings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each key with a comment, and the comment."""
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if key := _KEY.match(line):
            path[len(key["indent"]) // 2 :] = [key["name"]]
            if comment:
                yield ".".join(path), " ".join(comment)
            comment = []
        elif found := _COMMENT.match(line):
            if found["begins"]:
                comment = [found["text"]]
            elif comment:
                comment.append(found["text"])


def reference() -> str:
    """Return the page of all values, in Markdown."""
    return _HEAD + "".join(_row(value) for value in values())


def _row(value: Value) -> str:
    default = json.dumps(value.default, ensure_ascii=False)
    cells = (f"`{value.path}`", f"`{default}`", value.meaning)
    row = " | ".join(cell.replace("|", r"\|") for cell in cells)
    return f"| {row} |\n"


def schema() -> str:
    """Return the chart's schema, with the definitions of the agent's configuration as it is now."""
    content = json.loads(SCHEMA.read_text(encoding="utf-8"))
    content["definitions"] = _without_defaults(json_schema()["$defs"])
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _without_defaults(node: Any, *, names: bool = True) -> Any:
    """Return a schema without defaults, its references leading to ``definitions``.

    Args:
        node: of the schema.
        names: whether the node's keys are names, of which one may be "default", and no keywords.
    """
    if isinstance(node, list):
        return [_without_defaults(item, names=False) for item in node]
    if isinstance(node, str):
        return node.replace("#/$defs/", "#/definitions/")
    if not isinstance(node, dict):
        return node
    return {
        key: _without_defaults(value, names=not names and key == "properties")
        for key, value in node.items()
        if names or key != "default"
    }


FILES: Mapping[Path, Callable[[], str]] = {
    CHART / "files/alerts.yml": lambda: _text("monitoring/alerts.yml"),
    CHART / "files/dashboard.json": lambda: _text("monitoring/dashboard.json"),
    SCHEMA: schema,
    ROOT / "docs/reference/chart.md": reference,
}
"""What each file is made by. Helm reads nothing outside a chart: what it ships is copied there."""


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def main() -> None:
    """Write all files."""
    for path, content in FILES.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content(), encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
