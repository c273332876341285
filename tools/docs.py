"""Writes the reference pages that are made from the program itself: ``python tools/docs.py``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path

from msgspec.structs import FieldInfo, fields
from prometheus_client.parser import text_string_to_metric_families

import lastcall
from lastcall.config import hints
from lastcall.config.explain import NOT_IN_THIS_VERSION, toml_value, written
from lastcall.config.gpu import GpuRule, GpuXid
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

_GPU_EXAMPLE = """\
```toml
[[gpu.xids]]                         # three in an hour, and the GPU is degraded
xid = 31
respond = "watch"
repeats = 3
within_seconds = 3600

[[gpu.rules]]
name = "row_remap_pending"           # do not wait for an idle moment
respond = "faulty"
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

`gpu` is a GPU's UUID, `unknown` where the driver did not say which it was; the 64 first have series
of their own. A figure of a GPU is shown only while it is fresh, that is for three looks and at
least for 15 s: while the driver does not answer,
`lastcall_gpu_last_success_timestamp_seconds` grows old and the figures are
gone. What the driver counts goes back to 0 when it is loaded anew.

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


_CLIENT = """\
# Python client

<!-- Made by tools/docs.py from the docstrings in agent/lastcall/client; change it there. -->

What a training process calls. `import lastcall` needs the standard library alone, and nothing here
raises into training because an agent is missing, odd or gone.

```python
import lastcall

guard = lastcall.connect(job="llama-ft")
for step, batch in enumerate(loader, start=resume_step):
    train_step(batch)
    if notice := guard.poll(step):
        with guard.flush(notice, step=step) as flush:
            save_checkpoint(path)
            flush.saved(path)  # durable now
        if flush.stop:  # not after an advice or a drill
            sys.exit(lastcall.EXIT_PREEMPTED)
```

`lastcall.EXIT_PREEMPTED` is {exit_code}: a scheduler takes exit code 0 for a job that is finished.
An `Advice` has the fields of the message `advice` in [the protocol](protocol.md), which is what the
client speaks. It logs to the logger `lastcall`. [Your first flush](../tutorial/first-flush.md) puts
it to use.
"""


def client() -> str:
    """Return the reference of the training side's Python client, in Markdown."""
    head = _CLIENT.replace("{exit_code}", str(lastcall.EXIT_PREEMPTED))
    parts = [head, "## `lastcall.connect`", *_callable("lastcall.connect", lastcall.connect)]
    for kind in (lastcall.Guard, lastcall.Flush, lastcall.Notice):
        parts += [f"## `lastcall.{kind.__name__}`", *_docstring(kind)]
        for name, member in vars(kind).items():
            if name.startswith("_"):
                continue
            shown = f"{kind.__name__.lower()}.{name}"
            if isinstance(member, property) and member.fget is not None:
                hint = inspect.get_annotations(member.fget)["return"]
                signature = f"```python\n{shown}: {hint}\n```"
                parts += [f"### `{shown}`", signature, *_docstring(member)]
            elif inspect.isfunction(member):
                parts += [f"### `{shown}`", *_callable(shown, member)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


PAGES: Mapping[Path, Callable[[], str]] = {
    ROOT / "docs/reference/client.md": client,
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
        if path == "gpu":
            for title, listed in (("`[[gpu.xids]]`", GpuXid), ("`[[gpu.rules]]`", GpuRule)):
                yield _heading(title, listed)
                yield _rows(_field_row(field) for field in fields(listed))
            yield _GPU_EXAMPLE


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


def _callable(name: str, function: Callable[..., object]) -> Iterator[str]:
    """Yield a function's signature and what its docstring says."""
    yield f"```python\n{_signature(name, function)}\n```"
    yield from _docstring(function)


def _signature(name: str, function: Callable[..., object]) -> str:
    """Return how a function is called, its types as they are written in the source."""
    signature = inspect.signature(function)
    parameters: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        given = "" if parameter.default is parameter.empty else f" = {_value(parameter.default)}"
        parameters.append(f"{parameter.name}: {parameter.annotation}{given}")
    returned = signature.return_annotation
    if inspect.isgeneratorfunction(inspect.unwrap(function)):
        returned = "AbstractContextManager[None]"
    line = f"{name}({', '.join(parameters)}) -> {returned}"
    if len(line) <= _WIDTH:
        return line
    inside = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{name}(\n{inside}) -> {returned}"


def _value(default: object) -> str:
    """Return a default as it is written."""
    if isinstance(default, Enum):
        return f"{type(default).__module__}.{default.name}"
    return repr(default)


_WIDTH = 88

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises):$", re.MULTILINE)

_ENTRY = re.compile(r"^ {4}(\w+): ", re.MULTILINE)

_MARKUP = ((re.compile(r":\w+:`([^`]+)`"), r"`\1`"), (re.compile(r"``([^`]+)``"), r"`\1`"))
"""Sphinx's roles and literals, and what they are in Markdown."""


def _docstring(thing: object) -> Iterator[str]:
    """Yield a docstring's text and its sections, in Markdown."""
    words = inspect.getdoc(thing) or ""
    for pattern, markdown in _MARKUP:
        words = pattern.sub(markdown, words)
    text, *sections = _SECTION.split(words)
    yield text
    for title, content in zip(sections[::2], sections[1::2], strict=True):
        if title == "Returns":
            yield f"Returns {content.strip()[0].lower()}{_joined(content)[1:]}"
            continue
        _, *entries = _ENTRY.split(content)
        pairs = zip(entries[::2], entries[1::2], strict=True)
        listed = "\n".join(f"- `{name}`: {_joined(meaning)}" for name, meaning in pairs)
        yield listed if title in {"Args", "Attributes"} else f"Raises:\n\n{listed}"


def _joined(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    """Write all pages."""
    for path, page in PAGES.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(), encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
