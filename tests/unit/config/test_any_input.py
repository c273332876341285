"""Whatever stands in the layers, the loader gives a configuration or says what is wrong."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.config.explain import as_toml
from lastcall.config.faults import ConfigError, Fault
from lastcall.config.keys import KEYS, TABLES
from lastcall.config.layers import from_document, from_environment, from_flags
from lastcall.config.load import load, merge
from lastcall.config.provenance import Given

NAMES = st.sampled_from(
    sorted({part for path in (*KEYS, *TABLES) for part in path.split(".")})
) | st.text(max_size=8)
SINGLE = (
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["auto", "none", "aws", "0600", "/a", "http://a", "0.0.0.0:1", 1.0, 60])
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.dates()
    | st.times()
)
VALUES = st.recursive(
    SINGLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def _keyed(values: dict[str, object]) -> dict[str, object]:
    document: dict[str, object] = {}
    for path, value in values.items():
        *tables, name = path.split(".")
        inner = document
        for table in tables:
            inner = inner.setdefault(table, {})  # type: ignore[assignment]  # tables alone are here
        inner[name] = value
    return document


DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4) | st.dictionaries(
    st.sampled_from(list(KEYS)), VALUES, max_size=4
).map(_keyed)
TEXTS = st.text(max_size=20) | st.sampled_from(
    ["true", "1", "-1", "1e999", "[1]", "{a = 1}", '{"gcp": 2}', "auto", "[", "\ud800"]
)


@given(DOCUMENTS)
def test_any_document_loads_or_is_refused_in_single_lines(document) -> None:
    _load_or_refuse(list(from_document(document, "any.toml", {})))


@given(st.dictionaries(st.sampled_from([key.variable for key in KEYS.values()]), TEXTS))
def test_any_environment_loads_or_is_refused_in_single_lines(environ) -> None:
    _load_or_refuse(list(from_environment(environ)))


@given(
    st.lists(st.builds("{}={}".format, st.sampled_from(list(KEYS)), TEXTS) | st.text(), max_size=4)
)
def test_any_flags_load_or_are_refused_in_single_lines(overrides) -> None:
    _load_or_refuse(list(from_flags(overrides)))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_file_loads_or_is_refused(tmp_path_factory, content) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(content)
    refusal = _refusal(lambda: load(file, {}))

    assert all(line.startswith(str(file)) for line in refusal.splitlines())


def _load_or_refuse(layers: list[Given | Fault]) -> None:
    refusal = _refusal(lambda: as_toml(merge(layers, {"NODE_NAME": "n"})))

    assert refusal.replace("\n", "").isprintable()
    assert len(refusal.split("\n")) >= sum(isinstance(entry, Fault) for entry in layers)


def _refusal(load_it: Callable[[], object]) -> str:
    try:
        load_it()
    except ConfigError as error:
        return str(error)
    return ""


def test_a_fault_needs_something_wrong() -> None:
    with pytest.raises(ConfigError):
        merge([Fault("a", "b", "c")], {})
