from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lastcall.config import hints
from lastcall.config.explain import json_schema, toml_value, written
from lastcall.config.gpu import GpuRule, GpuXid
from lastcall.config.keys import KEYS, TABLES
from lastcall.config.load import load
from lastcall.config.notices import Notices
from lastcall.config.rules import SOURCES, NoticeRule
from lastcall.config.table import Table

ROOT = Path(__file__).resolve().parents[3]

CONTRACT = {
    "state_dir": "/var/lib/lastcall",
    "mode": "act",
    "socket.path": "/run/lastcall/agent.sock",
    "socket.mode": "0666",
    "socket.group": "",
    "http.listen": "0.0.0.0:9855",
    "notices.provider": "auto",
    "notices.aws.endpoint": "http://169.254.169.254",
    "notices.aws.poll_seconds": 1.0,
    "notices.gcp.endpoint": "http://169.254.169.254",
    "notices.azure.endpoint": "http://169.254.169.254",
    "notices.azure.poll_seconds": 1.0,
    "notices.azure.acknowledge": False,
    "notices.shutdown.enabled": True,
    "notices.file.path": "",
    "notices.url.url": "",
    "notices.schedule.ends_at": "",
    "notices.schedule.lead_seconds": 600.0,
    "notices.node.enabled": "auto",
    "flush.reserve_seconds": 10.0,
    "flush.assumed_lead_seconds": {"gcp": 30.0},
    "drain.backend": "auto",
    "drain.kubernetes.kubeconfig": "",
    "drain.systemd.units": (),
    "gpu.enabled": "auto",
    "gpu.act_on_faults": False,
    "gpu.poll_seconds": 5.0,
    "report.webhooks": (),
    "report.pushgateway": "",
}


@pytest.mark.parametrize(("path", "default"), CONTRACT.items())
def test_the_promised_keys_have_their_promised_defaults(path: str, default: object) -> None:
    assert written(KEYS[path], KEYS[path].default) == default


@pytest.mark.parametrize("path", KEYS)
def test_every_default_is_a_value_that_is_allowed(path: str) -> None:
    default = toml_value(written(KEYS[path], KEYS[path].default))
    text = default.strip('"') if hints.takes_raw_text(KEYS[path].hint) else default

    loaded = load(environ={}, overrides=[f"{path}={text}"])

    value: Any = loaded.config
    for name in path.split("."):
        value = getattr(value, name)
    assert value == KEYS[path].default or path == "node_name"


@pytest.mark.parametrize("path", KEYS)
def test_every_key_says_what_it_means_and_what_is_allowed(path: str) -> None:
    assert hints.description(KEYS[path].hint).endswith(".")
    assert hints.allowed(KEYS[path].hint)


def test_every_duration_has_its_unit_in_its_name() -> None:
    numbers = [key.path for key in KEYS.values() if hints.base(key.hint) is float]

    assert all(path.endswith(("_seconds", "_per_second")) for path in numbers)


def test_every_table_of_a_source_has_the_name_of_a_source() -> None:
    tables = {name for name in Notices.__struct_fields__ if f"notices.{name}" in TABLES}

    assert tables == set(SOURCES) - {"gpu"}


def test_a_configuration_never_changes() -> None:
    config = load(environ={}).config

    with pytest.raises(AttributeError):
        config.notices.aws.poll_seconds = 2.0  # type: ignore[misc]  # that is what is tested


def _entry(path: str) -> dict[str, Any]:
    key = KEYS[path]
    return json_schema()["$defs"][TABLES[key.table].__name__]["properties"][key.name]


@pytest.mark.parametrize("path", KEYS)
def test_the_json_schema_describes_every_key_with_its_default(path: str) -> None:
    entry = _entry(path)

    assert entry["description"].startswith(hints.description(KEYS[path].hint))
    assert entry["description"].endswith("(Not in this version.)") == KEYS[path].pending
    assert entry["default"] == written(KEYS[path], KEYS[path].default)


def test_the_json_schema_refuses_what_it_does_not_know() -> None:
    definitions = json_schema()["$defs"]

    listed = (NoticeRule, GpuRule, GpuXid)
    assert definitions.keys() == {table.__name__ for table in (*TABLES.values(), *listed)}
    assert all(table["additionalProperties"] is False for table in definitions.values())


def test_the_json_schema_lists_the_words_and_bounds_that_are_allowed() -> None:
    poll_seconds = _entry("notices.aws.poll_seconds")

    assert (poll_seconds["type"], poll_seconds["minimum"], poll_seconds["maximum"]) == (
        "number",
        0.01,
        60,
    )
    assert set(_entry("mode")["enum"]) == {"act", "observe"}
    backends = {"auto", "none", "kubernetes", "slurm", "systemd"}
    assert set(_entry("drain.backend")["enum"]) == backends
    assert _entry("notices.provider")["anyOf"][0]["enum"] == ["auto", "none", "aws", "gcp", "azure"]


def test_every_reference_within_the_json_schema_leads_somewhere() -> None:
    schema = json_schema()

    def references(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            for item in value.values():
                yield from references(item)
        elif isinstance(value, list):
            for item in value:
                yield from references(item)

    found = list(references(schema))
    assert "#/$defs/Config" in found
    assert all(name.removeprefix("#/$defs/") in schema["$defs"] for name in found)


def test_pending_tables_are_those_of_later_features() -> None:
    pending = {path for path, table in TABLES.items() if table.pending}

    assert pending == {
        "report",
    }
    assert not Table.pending
