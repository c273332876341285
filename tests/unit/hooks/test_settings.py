"""The settings of the hooks: which programs they name, and when none of them are run."""

from __future__ import annotations

import pytest

from lastcall.config.faults import ConfigError
from lastcall.config.load import Loaded, load
from lastcall.config.schema import Hooks
from lastcall.daemon.settings import hook_commands
from lastcall.record.metric_labels import HOOKS

NOMAD = 'hooks.on_notice=[["nomad", "node", "drain", "-enable", "-self"]]'


def loaded(*overrides: str) -> Loaded:
    return load(environ={}, overrides=overrides)


def test_there_is_a_key_for_each_hook_and_by_default_nothing_is_run() -> None:
    assert [name for name in Hooks.__struct_fields__ if name.startswith("on_")] == list(HOOKS)
    assert hook_commands(loaded().config) == dict.fromkeys(HOOKS, ())


def test_programs_are_named_by_hook_with_their_arguments() -> None:
    commands = hook_commands(loaded(NOMAD).config)

    assert commands["on_notice"] == (("nomad", "node", "drain", "-enable", "-self"),)


def test_an_agent_that_only_watches_runs_none() -> None:
    assert hook_commands(loaded(NOMAD, "mode=observe").config) == {}


def test_an_argument_may_stand_there_twice() -> None:
    config = loaded('hooks.on_notice=[["ray", "-v", "-v"], ["ray", "-v", "-v"]]').config

    assert config.hooks.on_notice == (("ray", "-v", "-v"),) * 2


@pytest.mark.parametrize(
    "value", ["nomad", '["nomad"]', "[[]]", '[[""]]', '[["nomad", 1]]', '[["no\\u0000mad"]]']
)
def test_what_is_no_list_of_commands_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"hooks\.on_notice.* allowed: "):
        loaded(f"hooks.on_notice={value}")
