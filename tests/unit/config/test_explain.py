import json
import tomllib

from lastcall.config.explain import as_json, as_toml, pending_settings
from lastcall.config.keys import KEYS
from lastcall.config.load import load

UNUSUAL = """\
mode = "observe"
state_dir = "/var/lib/\\"last\\\\call\\" é"
[notices]
provider = ["gcp", "aws"]
[[notices.rules]]
code = "a\\"b"
respond = "flush"
act_before_seconds = 1e3
[[notices.rules]]
respond = "inform"
drain = false
[flush]
assumed_lead_seconds = { gcp = 120, "aws.rebalance" = 0.5 }
volatile_paths = []
[gpu]
enabled = true
[report]
webhooks = ["https://hooks.example/é?a=1"]
"""


def test_the_printed_defaults_set_every_key_to_its_default(write) -> None:
    defaults = load(environ={})

    again = load(write(as_toml(defaults)), {})

    assert again.config == defaults.config
    assert {origin.layer for origin in again.origins.values()} == {"file"}
    assert again.origins.keys() == KEYS.keys()


def test_unusual_values_come_back_from_the_printed_file(write) -> None:
    unusual = load(write(UNUSUAL), {}).config

    again = load(write(as_toml(load(write(UNUSUAL), {}))), {}).config

    assert again == unusual
    assert again.flush.assumed_lead_seconds == {"gcp": 120.0, "aws.rebalance": 0.5}


def test_no_provider_is_printed_as_the_word_for_it() -> None:
    text = as_toml(load(environ={}, overrides=["notices.provider=[]"]))

    assert tomllib.loads(text)["notices"]["provider"] == "none"


def test_each_printed_value_has_its_origin_beside_it(write) -> None:
    file = write('state_dir = "/a"')

    lines = as_toml(load(file, {"LASTCALL_LOG__LEVEL": "debug"}, ["gpu.enabled=true"])).splitlines()

    assert lines[0] == f"# File: {file}"
    beside = {line.split(" = ")[0]: line.split("  # ")[1] for line in lines if " = " in line}
    assert beside["state_dir"] == f"{file}:1"
    assert beside["level"] == "environment LASTCALL_LOG__LEVEL"
    assert beside["listen"] == "default"
    assert beside["pushgateway"] == "default (not in this version)"


def test_json_has_value_and_origin_of_every_key(write) -> None:
    file = write('[notices]\nprovider = "aws"')

    shown = json.loads(as_json(load(file, {})))

    assert shown["file"] == str(file)
    assert shown["settings"].keys() == KEYS.keys()
    assert shown["settings"]["notices.provider"] == {
        "value": "aws",
        "layer": "file",
        "where": f"{file}:2",
        "pending": False,
    }
    assert shown["settings"]["report.pushgateway"]["pending"] is True


def test_what_has_no_effect_yet_is_pending_only_away_from_its_default(write) -> None:
    file = write('mode = "observe"\n[report]\npushgateway = "http://a"\nwebhooks = []\n')

    pending = pending_settings(load(file, {}))

    assert [(setting.key.path, setting.value) for setting in pending] == [
        ("report.pushgateway", "http://a"),
    ]
    assert pending[0].comment == f"{file}:3 (not in this version)"
