from pathlib import Path

import pytest

from lastcall.config.keys import KEYS
from lastcall.config.load import load


def test_nothing_configured_gives_every_default() -> None:
    loaded = load(environ={"NODE_NAME": "node-7"})

    assert loaded.file is None
    assert loaded.config.mode == "act"
    assert loaded.config.notices.provider == ("auto",)
    assert loaded.config.flush.assumed_lead_seconds == {"gcp": 30.0}
    assert {str(loaded.origins[path]) for path in KEYS if path != "node_name"} == {"default"}


def test_a_later_layer_wins_over_an_earlier_one(write) -> None:
    file = write('mode = "observe"\n[notices.aws]\npoll_seconds = 2\n[log]\nlevel = "debug"')
    environ = {"LASTCALL_NOTICES__AWS__POLL_SECONDS": "3", "LASTCALL_LOG__LEVEL": "error"}

    loaded = load(file, environ, ["log.level=info", "log.level=warning"])

    assert loaded.config.mode == "observe"
    assert loaded.config.notices.aws.poll_seconds == 3.0
    assert loaded.config.log.level == "warning"


def test_each_value_knows_where_it_came_from(write) -> None:
    file = write('mode = "observe"\n\n[notices]\naws.poll_seconds = 2\n')

    origins = load(file, {"LASTCALL_LOG__LEVEL": "error"}, ["log.format=json"]).origins

    assert str(origins["mode"]) == f"{file}:1"
    assert str(origins["notices.aws.poll_seconds"]) == f"{file}:4"
    assert str(origins["log.level"]) == "environment LASTCALL_LOG__LEVEL"
    assert str(origins["log.format"]) == "flag --set log.format"
    assert str(origins["http.listen"]) == "default"


def test_the_default_file_is_read_only_where_no_other_is_named(default_file: Path, write) -> None:
    default_file.parent.mkdir()
    default_file.write_text('mode = "observe"')

    assert load(environ={}).file == default_file
    assert load(environ={}).config.mode == "observe"
    assert load(write(""), {}).config.mode == "act"


def test_a_default_file_that_cannot_be_looked_at_is_a_fault(default_file: Path) -> None:
    default_file.parent.symlink_to(default_file.parent)

    with pytest.raises(ValueError, match=r"lastcall\.toml: cannot be read: "):
        load(environ={})


@pytest.mark.parametrize(
    ("environ", "name", "origin"),
    [
        ({"NODE_NAME": "Node-7.example"}, "Node-7.example", "default, from $NODE_NAME"),
        ({"LASTCALL_NODE_NAME": "own", "NODE_NAME": "n"}, "own", "environment LASTCALL_NODE_NAME"),
        ({"LASTCALL_NODE_NAME": "", "NODE_NAME": "n"}, "n", "default, from $NODE_NAME"),
    ],
)
def test_the_node_is_named_by_itself_or_by_its_environment(environ, name, origin) -> None:
    loaded = load(environ=environ)

    assert loaded.config.node_name == name
    assert str(loaded.origins["node_name"]) == origin


def test_without_any_name_the_node_has_the_name_of_its_host() -> None:
    loaded = load(environ={})

    assert loaded.config.node_name == Path("/proc/sys/kernel/hostname").read_text().strip()
    assert str(loaded.origins["node_name"]) == "default, from the host's name"


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("socket.group", "true", "true"),
        ("socket.mode", "0600", "0600"),
        ("http.listen", "", ""),
        ("mode", "observe", "observe"),
        ("notices.aws.imds_v1", "true", True),
        ("notices.aws.poll_seconds", "2", 2.0),
        ("notices.aws.poll_seconds", "2.5e0", 2.5),
        ("notices.aws.token_ttl_seconds", "1_000", 1000),
        ("gpu.enabled", "auto", "auto"),
        ("gpu.enabled", "false", False),
        ("notices.provider", "aws", ("aws",)),
        ("notices.provider", "none", ()),
        ("notices.provider", '["aws", "gcp"]', ("aws", "gcp")),
        ("notices.provider", "['aws', 'gcp']", ("aws", "gcp")),
        ("flush.assumed_lead_seconds", '{"gcp": 120}', {"gcp": 120.0}),
        ("flush.assumed_lead_seconds", '{"gcp.preemption" = 1.5}', {"gcp.preemption": 1.5}),
        ("flush.volatile_paths", "[]", ()),
    ],
)
def test_text_is_read_by_the_type_of_its_key(path: str, text: str, value: object) -> None:
    from_environment = load(environ={KEYS[path].variable: text}).config
    from_flag = load(environ={}, overrides=[f"{path}={text}"]).config

    for name in path.split("."):
        from_environment, from_flag = getattr(from_environment, name), getattr(from_flag, name)
    assert from_environment == from_flag == value
    assert type(from_environment) is type(value)


def test_rules_keep_their_order_and_leave_out_what_they_do_not_say(write) -> None:
    file = write(
        '[[notices.rules]]\ncode = "Freeze"\nrespond = "inform"\n'
        '[[notices.rules]]\nsource = "aws"\nrespond = "flush"\ndrain = false\n'
        "act_before_seconds = 60\n"
    )

    freeze, aws = load(file, {}).config.notices.rules

    assert (freeze.source, freeze.kind, freeze.code) == ("*", "*", "Freeze")
    assert (freeze.respond, freeze.drain, freeze.act_before_seconds) == ("inform", None, None)
    assert (aws.respond, aws.drain, aws.act_before_seconds) == ("flush", False, 60.0)


def test_the_socket_of_the_clients_is_the_agents_too() -> None:
    loaded = load(environ={"LASTCALL_SOCKET": "/tmp/agent.sock"})

    assert loaded.config.socket.path == "/tmp/agent.sock"
    assert str(loaded.origins["socket.path"]) == "environment LASTCALL_SOCKET"


def test_an_empty_lastcall_socket_says_nothing() -> None:
    assert load(environ={"LASTCALL_SOCKET": ""}).config.socket.path == "/run/lastcall/agent.sock"


@pytest.mark.parametrize(
    "name",
    [
        "LASTCALL_JOB",
        "LASTCALL_SERVICE_HOST",
        "LASTCALL_SERVICE_PORT_METRICS",
        "LASTCALL_PORT",
        "LASTCALL_PORT_9855_TCP_ADDR",
        "LASTCALL_AGENT_SERVICE_PORT",
        "LASTCALL_AGENT_PORT_9855_TCP",
        "lastcall_mode",
        "OTHER_MODE",
    ],
)
def test_variables_of_others_are_left_alone(name: str) -> None:
    assert load(environ={name: "x"}).config.mode == "act"


def test_no_key_looks_like_a_variable_that_kubernetes_makes() -> None:
    for key in KEYS.values():
        given = {key.variable: "\0"}
        with pytest.raises(ValueError, match=key.variable):
            load(environ=given)


def test_a_time_may_be_written_as_toml_has_times(write) -> None:
    file = write("[notices.schedule]\nends_at = 2030-01-31T10:00:00Z")

    assert load(file, {}).config.notices.schedule.ends_at == "2030-01-31T10:00:00+00:00"


def test_an_endpoint_loses_its_last_slash(write) -> None:
    file = write('[notices.aws]\nendpoint = "http://[fd00:ec2::254]:80/"')

    assert load(file, {}).config.notices.aws.endpoint == "http://[fd00:ec2::254]:80"
