"""What is said on the socket, from hello to bye, and what it becomes."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from lastcall.core.commands import Advise, CallOff, Confirm, Greet, Refuse, Tell
from lastcall.core.estimates import JobAdvice
from lastcall.core.events import (
    Acked,
    AllTold,
    Beat,
    ClientJoined,
    ClientLeft,
    FlushReported,
    Intended,
)
from lastcall.serve import connection, session
from support.agent_socket import Door, until, view

# --- hello -----------------------------------------------------------------------------------


async def test_a_hello_is_answered_with_all_open_notices(door):
    door.notices = (view("n-1", deadline=None), view("n-2"))
    client = await door.connect()

    welcome = await client.greet(job="llama", rank=3)

    assert (welcome["protocol"], welcome["agent"], welcome["node"]) == (1, "0.0", "node-1")
    assert [notice["id"] for notice in welcome["notices"]] == ["n-1", "n-2"]
    assert welcome["session"] == door.all(ClientJoined)[0].session


async def test_a_hello_becomes_an_event_with_the_kernels_word_on_the_peer(door):
    await door.join(
        job="llama",
        rank=3,
        local_rank=1,
        world_size=8,
        pid=1,
        client="lastcall-py/0.1",
        handled=["n-0"],
    )

    joined = await door.wait(ClientJoined)
    assert (joined.job, joined.rank, joined.local_rank, joined.world_size) == ("llama", 3, 1, 8)
    assert (joined.pid, joined.uid) == (os.getpid(), os.getuid())
    assert joined.identity.startswith(f"{os.getpid()}:")
    assert "py" in joined.command
    assert (joined.library, joined.handled) == ("lastcall-py/0.1", ("n-0",))


async def test_several_connections_of_one_process_are_sessions_of_one_identity(door):
    await door.join(rank=0)
    await door.join(rank=1)

    first, second = door.all(ClientJoined)
    assert first.identity == second.identity
    assert first.session != second.session


async def test_two_agents_never_use_the_same_session(directory):
    sessions = []
    for _ in range(2):
        async with Door(directory) as door:
            await door.join()
            sessions.append(door.all(ClientJoined)[0].session)

    assert len(set(sessions)) == 2


@pytest.mark.parametrize("versions", [[1, 1], [1, 9], [0, 1]])
async def test_a_range_of_versions_with_ours_in_it_is_welcome(door, versions):
    client = await door.connect()
    client.say("hello", protocol=versions)

    assert (await client.hear("welcome"))["protocol"] == 1


@pytest.mark.parametrize("versions", [[2, 3], [0, 0], [3, 0]])
async def test_other_versions_are_refused_and_the_connection_closed(door, versions):
    client = await door.connect()
    client.say("hello", protocol=versions)

    assert "version 1" in await client.hear_error("version")
    assert await client.sees_end()
    assert door.events == []


async def test_whoever_says_nothing_for_two_seconds_is_turned_out(door, monkeypatch):
    monkeypatch.setattr(session, "HELLO_SECONDS", 0.1)
    client = await door.connect()

    assert "hello" in await client.hear_error("bad_message")
    assert await client.sees_end()


async def test_half_a_hello_is_none(door, monkeypatch):
    monkeypatch.setattr(session, "HELLO_SECONDS", 0.1)
    client = await door.connect()
    client.say_raw(b'{"type":"hello","protocol":[1,1]}')

    await client.hear_error("bad_message")
    assert await client.sees_end()


async def test_a_hello_that_our_own_slowness_kept_waiting_is_not_late(door, monkeypatch):
    monkeypatch.setattr(session, "HELLO_SECONDS", 0.1)
    client = await door.connect()
    await asyncio.sleep(0.01)
    client.say("hello", protocol=[1, 1])

    time.sleep(0.2)  # noqa: ASYNC251 - the loop itself is held up

    await client.hear("welcome")


async def test_a_message_before_hello_is_refused_and_the_connection_closed(door):
    client = await door.connect()
    client.say("heartbeat")

    assert "first" in await client.hear_error("bad_message")
    assert await client.sees_end()


async def test_a_second_hello_is_refused_and_the_connection_goes_on(door):
    client = await door.join()
    client.say("hello", protocol=[1, 1], job="other")

    await client.hear_error("bad_message")
    client.say("heartbeat", step=1)
    await door.wait(Beat)
    assert len(door.all(ClientJoined)) == 1


async def test_what_follows_a_hello_in_one_write_is_heard_after_it(door):
    client = await door.connect()
    client.say_raw(
        b'{"type":"hello","protocol":[1,1]}\n{"type":"ack","id":"n"}\n{"type":"heartbeat"}\n'
    )

    await door.wait(Beat)
    assert [type(event) for event in door.events] == [ClientJoined, Acked, Beat]


async def test_a_hello_in_single_bytes_is_a_hello(door):
    client = await door.connect()
    for byte in b'{"type":"hello","protocol":[1,1]}\n':
        client.say_raw(bytes([byte]))
        await asyncio.sleep(0)

    await client.hear("welcome")


async def test_unknown_fields_are_ignored(door):
    client = await door.connect()

    await client.greet(colour="blue", nested={"a": [1]})


# --- what clients report ---------------------------------------------------------------------


async def test_reports_become_events_in_their_order(door):
    client = await door.join()
    client.say("ack", id="n-1", step=4)
    client.say("intent", id="n-1", will="save", at_step=5)
    client.say("flushed", id="n-1", path="/mnt/step-5", step=5, bytes=10)

    flushed = await door.wait(FlushReported)
    name = door.all(ClientJoined)[0].session
    assert door.events[1:] == [
        Acked(name, "n-1", 4),
        Intended(name, "n-1", "save", 5),
        flushed,
    ]
    assert (flushed.path, flushed.step, flushed.bytes, flushed.durable) == (
        "/mnt/step-5",
        5,
        10,
        True,
    )


async def test_a_report_made_just_before_the_end_is_heard(door):
    client = await door.join()
    client.say("flushed", id="n-1", path="/p", step=5)
    await client.close()

    await door.wait(ClientLeft)
    assert [type(event) for event in door.events] == [ClientJoined, FlushReported, ClientLeft]


async def test_a_report_is_heard_though_an_answer_could_not_be_delivered(door):
    client = await door.join()
    name = door.all(ClientJoined)[0].session
    client.say("flushed", id="n-1", path="/p", step=5)
    await client.close()

    door.socket.tell(Tell(view(), (name,)))

    await door.wait(ClientLeft)
    assert door.all(FlushReported)
    assert door.all(AllTold) == [AllTold("n-1", 0)]


async def test_a_client_that_only_stops_writing_still_gets_its_answer(door, monkeypatch):
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.2)
    client = await door.join()
    name = door.all(ClientJoined)[0].session
    client.say("flushed", id="n-1", path="/p", step=5)
    client.stop_writing()
    await door.wait(ClientLeft)

    door.socket.confirm(Confirm(name, "flushed", "n-1"))

    assert await client.hear("ok") == {"type": "ok", "re": "flushed", "id": "n-1"}
    assert await client.sees_end()


async def test_a_bye_is_told_from_a_loss(door):
    polite, rude = await door.join(), await door.join()
    polite.say("bye", reason="done\n")
    await door.wait(ClientLeft)
    await rude.close()
    await door.wait(ClientLeft, 2)

    first, second = door.all(ClientJoined)
    assert door.all(ClientLeft) == [
        ClientLeft(first.session, said_bye=True, reason="done"),
        ClientLeft(second.session, said_bye=False, reason="it hung up"),
    ]


async def test_an_answer_that_was_due_still_reaches_a_client_that_said_bye(door, monkeypatch):
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.2)
    client = await door.join()
    name = door.all(ClientJoined)[0].session
    client.say("bye")
    client.say("heartbeat")
    await door.wait(ClientLeft)

    door.socket.confirm(Confirm(name, "flushed", "n-1"))

    await client.hear("ok")
    assert await client.sees_end()
    assert not door.all(Beat), "nothing is heard after a bye"


async def test_a_client_is_forgotten_once_it_is_gone(door):
    for _ in range(3):
        client = await door.join()
        await client.close()
    await door.wait(ClientLeft, 3)

    await until(lambda: not door.socket._sessions)
    assert door.socket._slots._taken.total() == 0


# --- what the machine says -------------------------------------------------------------------


async def test_a_notice_reaches_every_session_that_it_names_and_no_other(door):
    told, left_out = await door.join(rank=0), await door.join(rank=1)
    name = door.all(ClientJoined)[0].session
    now = asyncio.get_running_loop().time()

    door.socket.tell(Tell(view(deadline=now + 30, flush_until=now + 20), (name, "gone")))
    door.socket.refuse(Refuse(door.all(ClientJoined)[1].session, "unknown_id", "no such notice"))

    notice = await told.hear("notice")
    assert notice["id"] == "n-1"
    assert notice["remaining_seconds"] == pytest.approx(30, abs=0.5)
    assert notice["budget_seconds"] == pytest.approx(20, abs=0.5)
    assert notice["deadline_unix"] == pytest.approx(door.wall + 30, abs=0.5)
    assert await left_out.hear_error("unknown_id") == "no such notice"
    assert door.all(AllTold) == [AllTold("n-1", 1)]


async def test_telling_nobody_is_told_too(door):
    door.socket.tell(Tell(view(), ()))

    assert door.all(AllTold) == [AllTold("n-1", 0)]


async def test_the_other_commands_become_lines(door):
    client = await door.join()
    name = door.all(ClientJoined)[0].session

    door.socket.call_off(CallOff("n-1", "the provider withdrew it", (name,)))
    door.socket.advise(Advise(name, JobAdvice(60.0, "fits", None)))
    door.socket.confirm(Confirm(name, "checkpoint"))

    assert await client.hear() == {
        "type": "withdrawn",
        "id": "n-1",
        "reason": "the provider withdrew it",
    }
    assert await client.hear() == {
        "type": "advice",
        "checkpoint_interval_seconds": 60.0,
        "flush_fits": "fits",
        "predicted_flush_seconds": None,
    }
    assert await client.hear() == {"type": "ok", "re": "checkpoint"}


async def test_commands_for_sessions_that_are_gone_do_nothing(door):
    door.socket.call_off(CallOff("n-1", "x", ("gone",)))
    door.socket.advise(Advise("gone", JobAdvice(None, "unknown", None)))
    door.socket.confirm(Confirm("gone", "checkpoint"))
    door.socket.refuse(Refuse("gone", "unknown_id", "x"))
    door.socket.greet(Greet("gone", ()))

    assert door.events == []


# --- the end ---------------------------------------------------------------------------------


async def test_when_the_agent_leaves_it_says_bye_and_nobody_counts_as_lost(directory):
    async with Door(directory) as door:
        client = await door.join()
        closing = asyncio.create_task(door.socket.close("it is replaced"))

        assert await client.hear() == {"type": "bye", "reason": "it is replaced"}
        await client.close()
        await closing

        assert not door.all(ClientLeft)
        assert not door.path.exists()
        assert not door.socket.listening


async def test_a_report_that_crosses_with_the_agents_bye_is_heard(directory):
    async with Door(directory) as door:
        client = await door.join()
        closing = asyncio.create_task(door.socket.close("it is replaced"))
        await client.hear("bye")
        client.say("flushed", id="n-1", path="/p", step=1)

        await door.wait(FlushReported)
        await closing


async def test_leaving_does_not_wait_for_clients_that_stay(directory):
    async with Door(directory) as door:
        clients = [await door.join(rank=rank) for rank in range(3)]
        began = time.monotonic()

        await door.socket.close("it is replaced")

        assert time.monotonic() - began < 2
        for client in clients:
            await client.hear("bye")
            assert await client.sees_end()


async def test_closing_twice_or_before_the_start_is_harmless(directory):
    door = Door(directory)
    await door.socket.close("never began")
    async with door:
        await door.socket.close("once")
        await door.socket.close("twice")
