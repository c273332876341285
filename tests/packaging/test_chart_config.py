"""The configuration that the chart writes is one that the agent reads without a complaint."""

from __future__ import annotations

import tomllib

import pytest

from lastcall.config.load import load
from support.helm import CHART, render

POD = {"NODE_NAME": "node-a", "POD_NAME": "lastcall-x", "POD_NAMESPACE": "lastcall", "POD_UID": "u"}

# Each kind of value that TOML has, with names and texts that need quotes.
MUCH = {
    "mode": "observe",
    "socket": {"max_connections": 2048, "messages_per_second": 50, "mode": "0660"},
    "notices": {
        "provider": ["aws", "gcp"],
        "aws": {"token_ttl_seconds": 21600, "imds_v1": True},
        "rules": [
            {"source": "azure", "code": "Freeze", "respond": "advise", "drain": False},
            {"code": 'a<b>&"c"\\d', "respond": "flush", "act_before_seconds": 1.5},
        ],
    },
    "flush": {
        "assumed_lead_seconds": {"gcp": 30, "azure.preemption": 12.5},
        "volatile_paths": [],
        "prior_interruption_seconds": 31536000,
    },
    "drain": {"kubernetes": {"taint": True, "force": "training"}},
}


@pytest.fixture
def read(tmp_path):
    """Have the agent read the configuration that values make."""

    def loaded(values=None, **how):
        path = tmp_path / "lastcall.toml"
        path.write_text(render(values, **how).toml, encoding="utf-8")
        return load(path, POD)

    return loaded


def test_with_no_values_the_agent_drains_through_the_cluster_it_is_in(read):
    config = read().config

    assert config.node_name == "node-a"
    assert config.http.listen == "0.0.0.0:9855"
    assert config.drain.backend == "kubernetes"
    assert config.drain.kubernetes.method == "evict"
    assert config.socket.path == "/run/lastcall/agent.sock"
    assert config.state_dir == "/var/lib/lastcall"


def test_every_kind_of_value_arrives_as_it_was_meant(read):
    config = read({"config": MUCH}).config

    assert config.mode == "observe"
    assert config.socket.max_connections == 2048
    assert config.socket.messages_per_second == 50.0
    assert config.notices.provider == ("aws", "gcp")
    assert config.notices.aws.token_ttl_seconds == 21600
    freeze, odd = config.notices.rules
    assert (freeze.source, freeze.respond, freeze.drain) == ("azure", "advise", False)
    assert (odd.code, odd.act_before_seconds) == ('a<b>&"c"\\d', 1.5)
    assert config.flush.assumed_lead_seconds == {"gcp": 30.0, "azure.preemption": 12.5}
    assert config.flush.volatile_paths == ()
    assert config.drain.kubernetes.taint is True
    assert config.drain.kubernetes.force == "training"


def test_nothing_but_what_was_given_and_what_the_chart_needs_is_written():
    written = tomllib.loads(render({"config": MUCH}).toml)

    drain = {**MUCH["drain"]["kubernetes"], "method": "evict"}
    assert written == {
        **MUCH,
        "http": {"listen": "0.0.0.0:9855"},
        "drain": {"backend": "kubernetes", "kubernetes": drain},
    }


def test_strict_mode_deletes_instead_of_evicting(read):
    assert read({"rbac": {"strict": True}}).config.drain.kubernetes.method == "delete"


def test_the_drain_can_be_turned_off(read):
    config = read({"config": {"drain": {"backend": "none"}}}).config
    assert config.drain.backend == "none"


@pytest.mark.parametrize("path", sorted(CHART.glob("examples/*.yaml")), ids=lambda path: path.stem)
def test_an_example_s_configuration_is_good(read, path):
    assert read(files=[path]).config.notices.provider[0] in {"aws", "gcp", "azure"}
