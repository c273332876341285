"""Status, drills and the GPUs: for root and the agent's own user, with or without a hello."""

from __future__ import annotations

import asyncio
import os

import pytest

from lastcall.core.commands import Confirm
from lastcall.core.events import ClientJoined, DrillRequested, GpuWatchRequested
from lastcall.core.model import Kind
from lastcall.serve import session
from lastcall.wire.messages import AGENT_LINE_LIMIT
from support.agent_socket import Door, program, wait_for_line
from support.needs import need_root


async def test_the_agents_own_user_sees_the_status_without_a_hello(door):
    client = await door.connect()
    client.say("status")

    assert await client.hear() == {"type": "status", "summary": {"phase": "quiet"}}


async def test_a_training_process_of_that_user_may_ask_too(door):
    client = await door.join()
    client.say("status")

    await client.hear("status")


async def test_an_operator_may_stay_without_a_hello(door, monkeypatch):
    monkeypatch.setattr(session, "HELLO_SECONDS", 0.05)
    client = await door.connect()
    client.say("status")
    await client.hear("status")

    await asyncio.sleep(0.15)

    client.say("status")
    await client.hear("status")


async def test_a_long_status_is_still_one_line_within_the_limit(door):
    door.view = {"clients": [{"client": "x" * 100} for _ in range(2000)]}
    client = await door.connect()
    client.say("status")

    answer = await client.hear("status")

    assert len(answer["clients"]) + answer["left_out"]["clients"] == 2000
    assert len(answer["clients"]) * 100 < AGENT_LINE_LIMIT


async def test_a_status_that_cannot_be_made_ends_that_connection_alone(door, caplog):
    other = await door.join()
    door.view = {"remaining_seconds": float("nan")}
    client = await door.connect()
    client.say("status")

    assert await client.sees_end()
    other.say("dance")
    await other.hear_error("unknown_type")


async def test_a_drill_is_passed_on_and_answered(door):
    client = await door.connect()
    client.say("drill", lead_seconds=30, kind="preemption", drain=True)

    asked = await door.wait(DrillRequested)
    assert (asked.lead_seconds, asked.kind, asked.drain) == (30.0, Kind.PREEMPTION, True)
    door.socket.confirm(Confirm(asked.session, "drill", "n-9"))
    assert await client.hear() == {"type": "ok", "re": "drill", "id": "n-9"}


async def test_a_drill_without_particulars_is_modest(door):
    client = await door.connect()
    client.say("drill")

    asked = await door.wait(DrillRequested)
    assert (asked.kind, asked.drain) == (Kind.MANUAL, False)


@pytest.mark.parametrize(
    "fields",
    [{"kind": "earthquake"}, {"lead_seconds": 0.5}, {"lead_seconds": 86401}, {"drain": "yes"}],
)
async def test_an_impossible_drill_is_refused(door, fields):
    client = await door.connect()
    client.say("drill", **fields)

    await client.hear_error("bad_message")
    assert not door.all(DrillRequested)


@pytest.mark.parametrize("watched", [True, False])
async def test_a_word_about_the_gpus_is_passed_on_and_answered(door, watched):
    client = await door.connect()
    client.say("gpu", watched=watched)

    asked = await door.wait(GpuWatchRequested)
    assert asked.watched is watched
    door.socket.confirm(Confirm(asked.session, "gpu"))
    assert await client.hear() == {"type": "ok", "re": "gpu"}


@pytest.mark.parametrize("fields", [{}, {"watched": "no"}, {"watched": None}])
async def test_a_word_about_the_gpus_that_does_not_say_what_is_wanted_is_refused(door, fields):
    client = await door.connect()
    client.say("gpu", **fields)

    await client.hear_error("bad_message")
    assert not door.all(GpuWatchRequested)


STRANGER = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
lines = s.makefile()
s.sendall(b'{"type":"drill"}\\n'); print(lines.readline().strip(), flush=True)
s.sendall(b'{"type":"status"}\\n'); print(lines.readline().strip(), flush=True)
s.sendall(b'{"type":"hello","protocol":[1,1]}\\n'); print(lines.readline().strip(), flush=True)
s.sendall(b'{"type":"drill"}\\n'); print(lines.readline().strip(), flush=True)
s.sendall(b'{"type":"gpu","watched":false}\\n'); print(lines.readline().strip(), flush=True)
"""


@pytest.mark.root
async def test_any_other_user_is_refused_but_may_train(directory):
    need_root()
    os.chmod(directory, 0o755)
    async with Door(directory) as door:
        with program(STRANGER, str(door.path)) as process:
            answers = [await asyncio.to_thread(wait_for_line, process) for _ in range(5)]

        assert ["unauthorized" in answer for answer in answers] == [
            True,
            True,
            False,
            True,
            True,
        ]
        assert "welcome" in answers[2]
        assert door.all(ClientJoined)[0].uid == 65534
        assert not door.all(DrillRequested)
        assert not door.all(GpuWatchRequested)
