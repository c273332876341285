"""Writes the reference pages that are made from the program itself: ``python tools/docs.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import FieldInfo, fields
from prometheus_client.parser import text_string_to_metric_families

from lastcall.config import hints
from lastcall.config.explain import NOT_IN_THIS_VERSION, toml_value, written
from lastcall.config.keys import KEYS, TABLES, Key
from lastcall.config.rules import NoticeRule
from lastcall.config.table import Table

ROOT = Path(__file__).resolve().parent.parent

_CONFIGURATION = """\
# Configuration

<!-- Made by tools/docs.py from agent/lastcall/config; change it there. -->

Nothing needs to be set: each default is right for a node with nothing configured.

## Layers

Four layers are laid over each other; a later one wins, key by key. A list or a table of values is
replaced as a whole.

- **Defaults**, as below.
- **File**: TOML; `/etc/lastcall/lastcall.toml` if present, or the one that `--config FILE` names,
  which must be there.
- **Environment**: `LASTCALL_<TABLE>__<KEY>` with two underscores for each dot, such as
  `LASTCALL_MODE=observe` or `LASTCALL_NOTICES__AWS__POLL_SECONDS=2`. `LASTCALL_SOCKET` is another
  name for `LASTCALL_SOCKET__PATH`, since clients read it.
- **Flags**: `--set table.key=value`, as often as needed, such as
  `--set notices.aws.poll_seconds=2`.

In the environment and in flags a text stands as it is, without quotes; lists and tables are
written as TOML or JSON: `LASTCALL_NOTICES__PROVIDER='["aws", "gcp"]'`,
`--set 'flush.assumed_lead_seconds={gcp = 120}'`.

`lastcall config` prints the configuration in effect with the origin of each value, and
`lastcall config --schema` the JSON Schema of the file. The configuration is read once, at the
start.

## Faults

A key that does not exist, a wrong type or an impossible value stops the start with exit code 2.
Every fault gets one line on standard error with its place, the key, what was given and what is
allowed:

```text
/etc/lastcall/lastcall.toml:7: mode = "obsrve": allowed: "act" or "observe"; did you mean "observe"?
```

A variable that begins with `LASTCALL_` and names no key is such a fault as well. Left alone are
`LASTCALL_JOB`, which clients read, and those that Kubernetes makes for a Service
(`LASTCALL_SERVICE_HOST`, `LASTCALL_PORT` and the like).

## Keys

The unit of a number stands in its name.
"""


_RULES_EXAMPLE = """\
```toml
[[notices.rules]]                    # a freeze of some seconds: ask for an early checkpoint
source = "azure"
code = "Freeze"
respond = "advise"
```
"""


def configuration() -> str:
    """Return the reference of all keys of the configuration, in Markdown."""
    return "\n".join([_CONFIGURATION, *_sections()])


_METRICS = """\
# Metrics

<!-- Made by tools/docs.py from what the agent exposes; change it there. -->

At `/metrics` of `http.listen`, by default port 9855, as Prometheus text or OpenMetrics. Every
series whose labels are known beforehand exists at 0 from the start, so that an alert on
`increase()` sees the first notice of a node's life. Scrape often: a machine that dies within 30
seconds is seen by a scrape every 5 to 10 seconds, and by no other. Notice ids appear as OpenMetrics
exemplars, never as labels. `job` comes from clients: its values are capped in number and length,
and past the cap they fold into `other`.

Drills are told apart: their notices have source `manual` and their flushes kind `manual`.

| name | type | labels | meaning |
|---|---|---|---|
"""

EXPOSITION = ROOT / "tests/golden/metrics_story.txt"
"""The exposition of an agent after a story in which every series appears."""


def metrics() -> str:
    """Return the reference of all metrics, in Markdown."""
    rows = []
    for family in text_string_to_metric_families(EXPOSITION.read_text(encoding="utf-8")):
        counter = family.type == "counter" and not family.name.endswith("_total")
        name = f"{family.name}_total" if counter else family.name
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        shown = ", ".join(f"`{label}`" for label in labels)
        rows.append(f"| `{name}` | {family.type} | {shown} | {family.documentation} |")
    return _METRICS + "\n".join(rows) + "\n"


PAGES: Mapping[Path, Callable[[], str]] = {
    ROOT / "docs/reference/configuration.md": configuration,
    ROOT / "docs/reference/metrics.md": metrics,
}
"""What each page is made by."""


def _sections() -> Iterator[str]:
    for path, table in TABLES.items():
        keys = [key for key in KEYS.values() if key.table == path]
        yield _heading(f"`[{path}]`" if path else "Top of the file", table)
        if keys:
            yield _rows(_key_row(key) for key in keys)
        if path == "notices":
            yield _heading("`[[notices.rules]]`", NoticeRule)
            yield _rows(_field_row(field) for field in fields(NoticeRule))
            yield _RULES_EXAMPLE


def _heading(title: str, table: type[Table]) -> str:
    note = f"\n\nThis table has no effect yet: {NOT_IN_THIS_VERSION}." if table.pending else ""
    return f"### {title}\n\n{(table.__doc__ or '').strip()}{note}\n"


def _rows(rows: Iterator[tuple[str, str, str, str]]) -> str:
    lines = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for row in rows:
        cells = " | ".join(cell.replace("|", r"\|") for cell in row)
        lines.append(f"| {cells} |")
    return "\n".join(lines) + "\n"


def _key_row(key: Key) -> tuple[str, str, str, str]:
    default = f"`{toml_value(written(key, key.default))}`"
    return f"`{key.name}`", default, hints.allowed(key.hint), hints.description(key.hint)


def _field_row(field: FieldInfo) -> tuple[str, str, str, str]:
    if field.required:
        default = "must be given"
    else:
        default = "as built in" if field.default is None else f"`{toml_value(field.default)}`"
    return f"`{field.name}`", default, hints.allowed(field.type), hints.description(field.type)


def main() -> None:
    """Write all pages."""
    for path, page in PAGES.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(), encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
