import json
import os
from pathlib import Path

import pytest

from lastcall.config.faults import ConfigError
from lastcall.config.load import load


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            'mode = "obsrve"',
            ':1: mode = "obsrve": allowed: "act" or "observe"; did you mean "observe"?',
        ),
        ("mode = 1", ':1: mode = 1: allowed: "act" or "observe"'),
        ('node_name = "a b"', ':1: node_name = "a b": allowed: letters'),
        ('state_dir = "~/state"', ':1: state_dir = "~/state": allowed: an absolute path'),
        ('state_dir = "$HOME/state"', ':1: state_dir = "$HOME/state": allowed: an absolute path'),
        ('state_dir = "/a\\u0000b"', "allowed: UTF-8 text without control characters"),
        ('[socket]\npath = "run.sock"', ':2: socket.path = "run.sock": allowed: an absolute path'),
        (f'[socket]\npath = "/{"x" * 107}"', "allowed: an absolute path of at most 107 bytes"),
        (f'[socket]\npath = "/{"é" * 54}"', "allowed: an absolute path of at most 107 bytes"),
        ("[socket]\nmode = 0o666", ":2: socket.mode = 438: allowed: octal digits in quotes"),
        ('[socket]\nmode = "0888"', ':2: socket.mode = "0888": allowed: octal digits in quotes'),
        ('[socket]\ngroup = "a b"', ':2: socket.group = "a b": allowed: a group'),
        ("[socket]\nmax_connections = 0", "allowed: a whole number from 1 to 1000000"),
        ("[socket]\nmax_connections = 1.5", "allowed: a whole number from 1 to 1000000"),
        ("[socket]\nmax_connections = true", ":2: socket.max_connections = true: allowed: a whole"),
        (
            "[socket]\nbytes_per_second = inf",
            ":2: socket.bytes_per_second = inf: allowed: a number",
        ),
        ('[http]\nlisten = "0.0.0.0"', ':2: http.listen = "0.0.0.0": allowed: HOST:PORT'),
        ("[http]\nlisten = 9855", ":2: http.listen = 9855: allowed: HOST:PORT"),
        ("[notices.aws]\npoll_seconds = -1", "allowed: a number from 0.01 to 60"),
        ("[notices.aws]\npoll_seconds = 61", "allowed: a number from 0.01 to 60"),
        ("[notices.aws]\npoll_seconds = nan", "allowed: a number from 0.01 to 60"),
        ('[notices.aws]\npoll_seconds = "1"', "allowed: a number from 0.01 to 60"),
        ("[notices.aws]\ntoken_ttl_seconds = 21601", "allowed: a whole number from 1 to 21600"),
        ('[notices.aws]\nimds_v1 = "true"', "allowed: true or false"),
        ('[notices.gcp]\nendpoint = "ftp://a"', "allowed: an address such as"),
        ('[notices.azure]\napi_version = "new"', "allowed: a version of the API"),
        ('[notices]\nprovider = "awss"', 'did you mean "aws"?'),
        ('[notices]\nprovider = ["aws", "auto"]', 'provider = a list: allowed: "auto", "none"'),
        (
            '[notices]\nprovider = ["aws", "aws"]',
            ' notices.provider[1] = "aws": stands in the list',
        ),
        ("[notices]\nprovider = 3", ":2: notices.provider = 3: allowed: "),
        ("[notices]\nrules = 3", ":2: notices.rules = 3: allowed: a list of tables"),
        ("[notices]\nrules = [3]", "notices.rules[0] = 3: allowed: a table of source, kind"),
        ("[[notices.rules]]\ndrain = true", "notices.rules[0].respond: must be given; allowed: "),
        (
            '[[notices.rules]]\nrespond = "flsh"',
            (
                'notices.rules[0].respond = "flsh": allowed: "flush", "advise" or "inform"; '
                'did you mean "flush"?'
            ),
        ),
        (
            '[[notices.rules]]\nrespond = "flush"\nkinds = "*"',
            'notices.rules[0].kinds = "*": no such key; allowed: source, kind, ',
        ),
        (
            '[[notices.rules]]\nrespond = "flush"\nkind = "premption"',
            "allowed: a pattern such as",
        ),
        ('[[notices.rules]]\nrespond = "flush"\nsource = "asw"', "that matches one of aws, gcp"),
        ('[[notices.rules]]\nrespond = "flush"\ncode = ""', 'notices.rules[0].code = ""'),
        ("[flush]\nassumed_lead_seconds = 3", "assumed_lead_seconds = 3: allowed: a table of"),
        ("[flush]\nassumed_lead_seconds = { gpc = 3 }", "assumed_lead_seconds.gpc = 3: no such"),
        (
            '[flush]\nassumed_lead_seconds = { "gcp.preempt" = 3 }',
            'flush.assumed_lead_seconds."gcp.preempt" = 3: no such name',
        ),
        (
            "[flush]\nassumed_lead_seconds = { gcp = 0 }",
            "flush.assumed_lead_seconds.gcp = 0: allowed: a number above 0, up to 604800",
        ),
        ('[flush]\nvolatile_paths = ["a"]', 'volatile_paths[0] = "a": allowed: an absolute path'),
        (
            '[drain]\nbackend = "nomad"',
            'allowed: "auto", "none", "kubernetes", "slurm" or "systemd"',
        ),
        ('[drain.systemd]\nunits = ["train"]', "allowed: a systemd unit with its ending"),
        ("[notices.schedule]\nends_at = 2030-01-01", "allowed: a time with its zone"),
        ('[notices.schedule]\nends_at = "2030-01-01T10:00:00"', "allowed: a time with its zone"),
        ('[notices.url]\nurl = "ali"', 'url = "ali": allowed: "alibaba", "tencent"'),
        ('[report]\nwebhooks = ["http://"]', 'report.webhooks[0] = "http://": allowed: an address'),
        ('[gpu]\nenabled = "yes"', 'gpu.enabled = "yes": allowed: "auto", true or false'),
        ('[[gpu.rules]]\nname = "temperature"\nhits = 5', "3 for temperature, memory_temperature,"),
        ('[log]\nlevel = "warn"', 'did you mean "warning"?'),
    ],
)
def test_an_impossible_value_is_told_with_place_given_and_allowed(text, line, fault_lines) -> None:
    (told,) = fault_lines(text)

    assert told.startswith("lastcall.toml:")
    assert line in told


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('moed = "act"', ':1: moed = "act": no such key; allowed: node_name, state_dir, mode, '),
        ('moed = "act"', "did you mean mode?"),
        ("[notices.aws]\npol_seconds = 1", "did you mean notices.aws.poll_seconds?"),
        ("[notices.aws]\npol_seconds = 1", ":2: notices.aws.pol_seconds = 1: no such key; allowed"),
        ("reserve_seconds = 1", "did you mean flush.reserve_seconds?"),
        ("[notice.aws]\npoll_seconds = 1", "notice = a table: no such key"),
        ("[notice.aws]\npoll_seconds = 1", "did you mean notices?"),
        ('"socket.mode" = "0600"', '"socket.mode" = "0600": no such key'),
        ('"" = 1', '"" = 1: no such key'),
        ('"a\\nb" = 1', '"a\\nb" = 1: no such key'),
        ("zzzzzz = 1", ", report, log"),
        ("[notices]\naws = 1", "notices.aws = 1: allowed: a table of endpoint, poll_seconds"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest_name(text, line, fault_lines) -> None:
    (told,) = fault_lines(text)

    assert line in told


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"a = 1\nmode = \n", ":2: not TOML: Invalid value"),
        (b"a = 1\n\nmode = [", ":3: not TOML: "),
        (b"a = 1\na = 2\n", ":2: not TOML: Cannot overwrite a value"),
        (b"a = 1\nmode = '\xff'", ":2: not UTF-8: byte 0xff"),
        (b"a = " + b"[" * 5000, ": not TOML: nested too deeply"),
        (b"#" * (1024 * 1024 + 1), ": too large: allowed: at most 1048576 bytes"),
    ],
)
def test_a_file_that_is_no_toml_is_told_with_its_line(content, line, tmp_path: Path) -> None:
    file = tmp_path / "lastcall.toml"
    file.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        load(file, {})

    assert str(caught.value).startswith(f"{file}{line}")


def test_a_whole_number_of_thousands_of_digits_is_one_line(fault_lines) -> None:
    (told,) = fault_lines(f"[notices.aws]\npoll_seconds = 0x{'f' * 5000}")

    assert "poll_seconds = a number of thousands of digits: allowed: a number" in told


def test_a_named_file_must_be_there_and_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read: No such file"):
        load(tmp_path / "absent.toml", {})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path, {})


def test_a_file_without_permission_is_one_line(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "open", refuse)

    with pytest.raises(ConfigError, match=r"\Ax\.toml: cannot be read: Permission denied\Z"):
        load(Path("x.toml"), {})


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({"LASTCALL_MODE": "on"}, 'environment LASTCALL_MODE: mode = "on": allowed: "act" or'),
        ({"LASTCALL_MOED": "secret"}, "environment LASTCALL_MOED: no such key; allowed: LASTCALL_"),
        ({"LASTCALL_MOED": "secret"}, "; did you mean LASTCALL_MODE?"),
        (
            {"LASTCALL_NOTICES_AWS_POLL_SECONDS": "2"},
            "; did you mean LASTCALL_NOTICES__AWS__POLL_SECONDS?",
        ),
        ({"LASTCALL_NOTICES__AWS": "{}"}, "environment LASTCALL_NOTICES__AWS: no such key"),
        ({"LASTCALL_NOTICES__AWS__IMDS_V1": "yes"}, 'imds_v1 = "yes": allowed: true or false'),
        ({"LASTCALL_NOTICES__AWS__POLL_SECONDS": ""}, 'poll_seconds = "": allowed: a number'),
        ({"LASTCALL_NOTICES__AWS__POLL_SECONDS": "1\nx = 2"}, "allowed: a number from 0.01 to 60"),
        ({"LASTCALL_NOTICES__AWS__POLL_SECONDS": "NaN"}, "poll_seconds = nan: allowed: a number"),
        ({"LASTCALL_NOTICES__AWS__POLL_SECONDS": "[" * 9999}, "allowed: a number from 0.01"),
        ({"LASTCALL_STATE_DIR": "/a\udcff"}, 'state_dir = "/a\\udcff": allowed: UTF-8 text'),
        ({"LASTCALL_SOCKET": "a"}, 'environment LASTCALL_SOCKET: socket.path = "a": allowed'),
        (
            {"LASTCALL_SOCKET": "/a", "LASTCALL_SOCKET__PATH": "/b"},
            "LASTCALL_SOCKET__PATH says otherwise; set one",
        ),
        ({"NODE_NAME": "a b"}, 'environment NODE_NAME: node_name = "a b": allowed: letters'),
    ],
)
def test_a_fault_in_the_environment_names_the_variable(environ, line, fault_lines) -> None:
    (told,) = fault_lines(environ=environ)

    assert line in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("mode", 'flag --set: "mode": allowed: KEY=VALUE'),
        ("mdoe=act", "flag --set mdoe: no such key; allowed: node_name, "),
        ("mdoe=act", "; did you mean mode?"),
        ("notices.aws.pol=1", "no such key; allowed: endpoint, poll_seconds"),
        ("notices.aws=1", "flag --set notices.aws: a table; allowed: one of its keys, endpoint"),
        ("=1", "flag --set : a table; allowed: one of its keys, node_name"),
        ("mode=on", 'flag --set mode: mode = "on": allowed: "act" or "observe"'),
    ],
)
def test_a_fault_in_a_flag_names_the_flag(override, line, fault_lines) -> None:
    (told,) = fault_lines(overrides=[override])

    assert line in told


def test_all_faults_of_all_layers_are_told_at_once(fault_lines) -> None:
    told = fault_lines(
        'mode = "x"\nmoed = 1\n[notices.aws]\npoll_seconds = 0\n[flush]\nvolatile_paths = ["a", 1]',
        {"LASTCALL_LOG__LEVEL": "loud", "NODE_NAME": " "},
        ["mode=act", "http.listen=x"],
    )

    assert [line.split(" = ")[0].split("; ")[0] for line in told] == [
        "lastcall.toml:1: mode",
        "lastcall.toml:2: moed",
        "lastcall.toml:4: notices.aws.poll_seconds",
        "lastcall.toml:6: flush.volatile_paths[0]",
        "lastcall.toml:6: flush.volatile_paths[1]",
        "environment LASTCALL_LOG__LEVEL: log.level",
        "flag --set http.listen: http.listen",
        "environment NODE_NAME: node_name",
    ]


def test_user_and_password_of_an_address_are_not_shown(fault_lines) -> None:
    (told,) = fault_lines('[report]\nwebhooks = ["https://me:secret@host/"]')

    assert 'report.webhooks[0] = "https://…@host/": allowed: ' in told


def test_a_long_value_is_cut_short(fault_lines) -> None:
    (told,) = fault_lines(f"mode = {json.dumps('x' * 500)}")

    assert f'"{"x" * 78}…' in told
    assert len(told) < 200
