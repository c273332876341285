"""Floods, clients that do not read, and many at once: each costs itself, and nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import time

import pytest

from lastcall.core.commands import Confirm, Tell
from lastcall.core.events import AllTold, Beat, ClientJoined, ClientLeft, FlushReported
from lastcall.serve import connection
from lastcall.serve.limits import BURST_SECONDS
from support.agent_socket import Client, Door, program, until, view, wait_for_line

HEARTBEAT = b'{"type":"heartbeat"}\n'


async def round_trip_seconds(client: Client) -> float:
    """Return how long an ordinary client waits for an answer."""
    began = time.monotonic()
    client.say("dance")
    await client.hear_error("unknown_type")
    return time.monotonic() - began


# --- floods ----------------------------------------------------------------------------------


async def test_a_burst_passes_at_once(door):
    client = await door.join()
    client.say_raw(HEARTBEAT * 190)

    began = time.monotonic()
    await door.wait(Beat, 190)
    assert time.monotonic() - began < 2


async def test_beyond_the_burst_a_client_is_slowed_and_told_so(directory):
    async with Door(directory, messages_per_second=200.0) as door:
        client = await door.join()
        began = time.monotonic()
        client.say_raw(HEARTBEAT * 2000)
        await client.hear_error("rate")
        at_once = len(door.all(Beat))
        assert at_once >= 790

        await asyncio.sleep(0.5)

        allowed = 200 * (BURST_SECONDS + time.monotonic() - began)
        assert at_once < len(door.all(Beat)) <= allowed + 10


async def test_bytes_are_counted_as_well_as_messages(directory):
    async with Door(directory, bytes_per_second=16384.0) as door:
        client = await door.join()
        client.say_raw((HEARTBEAT[:-2] + b" " * 8000 + b"}\n") * 100)

        await client.hear_error("rate")
        assert len(door.all(Beat)) < 20


async def test_a_flood_is_complained_about_once_a_second_at_most(directory):
    async with Door(directory, messages_per_second=10.0) as door:
        client = await door.join()
        client.say_raw(HEARTBEAT * 1000)
        await client.hear_error("rate")

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.6):
                await client.hear()


async def test_a_report_behind_a_flood_arrives(directory):
    async with Door(directory, messages_per_second=500.0) as door:
        client = await door.join()
        client.say_raw(HEARTBEAT * 2300)
        client.say("flushed", id="n-1", path="/p", step=5)

        await door.wait(FlushReported)
        assert len(door.all(Beat)) == 2300


async def test_a_report_behind_a_flood_arrives_though_its_sender_is_gone(directory):
    async with Door(directory, messages_per_second=10.0) as door:
        client = await door.join()
        client.say_raw(HEARTBEAT * 500)
        client.say("flushed", id="n-1", path="/p", step=5)
        code = """
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'{"type":"hello","protocol":[1,1],"job":"gone"}\\n')
s.sendall(b'{"type":"heartbeat"}\\n' * 500)
s.sendall(b'{"type":"flushed","id":"n-1","path":"/g","step":5}\\n')
"""
        with program(code, str(door.path)) as process:
            process.wait()

            assert (await door.wait(FlushReported)).path == "/g"
            await door.wait(ClientLeft)


async def test_floods_hold_up_no_other_client(door):
    loud = [await door.join(rank=rank) for rank in range(40)]
    calm = await door.join(rank=99)
    for client in loud:
        client.say_raw(HEARTBEAT * 3000)

    waits = [await round_trip_seconds(calm) for _ in range(20)]

    assert sorted(waits)[10] < 0.2
    assert max(waits) < 1


async def test_between_the_lines_of_one_client_others_are_heard(door):
    loud, calm = await door.join(rank=0), await door.join(rank=1)

    loud.say_raw(HEARTBEAT * 150)
    calm.say("flushed", id="n-1", path="/p", step=5)

    await door.wait(Beat, 150)
    assert [type(event) for event in door.events].index(FlushReported) < 50


async def test_a_flood_takes_little_memory(door):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.ExitStack() as floods:
        raw = [floods.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(50)]
        for flooding in raw:
            flooding.connect(str(door.path))
            flooding.setblocking(False)
            flooding.send(b'{"type":"hello","protocol":[1,1]}\n')
        began, latest = time.monotonic(), time.monotonic() + 10
        # A busy machine has the agent read less in the same time.
        while time.monotonic() < began + 0.5 or (
            len(door.all(Beat)) <= 1000 and time.monotonic() < latest
        ):
            for flooding in raw:
                with contextlib.suppress(BlockingIOError):
                    flooding.send(HEARTBEAT * 3000)
            await asyncio.sleep(0.01)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert len(door.all(Beat)) > 1000
    assert grown_kib < 30_000


# --- clients that do not read ----------------------------------------------------------------


@pytest.fixture
def deaf(door):
    """A client that reads nothing of what it is sent."""
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.connect(str(door.path))
        deaf.send(b'{"type":"hello","protocol":[1,1]}\n')
        yield deaf


async def test_a_client_that_does_not_read_is_cut_off_after_a_while(door, deaf, monkeypatch):
    monkeypatch.setattr(connection, "UNSENT_SECONDS", 0.1)
    name = (await door.wait(ClientJoined)).session
    calm = await door.join()
    session = door.socket._sessions[name]
    transport = session._connection._transport
    while not transport.get_write_buffer_size():
        door.socket.tell(Tell(view(reason="x" * 500), (name,)))
    assert not door.all(ClientLeft)

    assert await round_trip_seconds(calm) < 0.5
    began = time.monotonic()
    assert "did not read" in (await door.wait(ClientLeft)).reason
    assert time.monotonic() - began < 0.5


async def test_what_waits_for_a_client_is_limited(door, deaf):
    name = (await door.wait(ClientJoined)).session
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in range(20_000):
        door.socket.tell(Tell(view(reason="x" * 500), (name,)))

    assert door.all(AllTold)[-1].clients == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000
    await door.wait(ClientLeft)


async def test_a_stopped_process_holds_up_nobody_and_is_told_when_it_goes_on(door):
    code = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'{"type":"hello","protocol":[1,1]}\\n')
lines = s.makefile()
print(lines.readline(), flush=True)
for line in lines: print(line, end="", flush=True)
"""
    with program(code, str(door.path)) as process:
        name = (await door.wait(ClientJoined)).session
        await asyncio.to_thread(wait_for_line, process)
        process.send_signal(signal.SIGSTOP)
        calm = await door.join()
        other = door.all(ClientJoined)[1].session

        began = time.monotonic()
        door.socket.tell(Tell(view("n-7"), (name, other)))
        assert (await calm.hear("notice"))["id"] == "n-7"
        assert time.monotonic() - began < 0.5

        process.send_signal(signal.SIGCONT)
        assert process.stdout is not None
        while "n-7" not in await asyncio.to_thread(wait_for_line, process):
            pass


async def test_a_client_cut_off_for_not_reading_is_still_heard(door, deaf):
    name = (await door.wait(ClientJoined)).session
    deaf.send(b'{"type":"flushed","id":"n-1","path":"/p","step":5}\n')

    for _ in range(2000):
        door.socket.tell(Tell(view(reason="x" * 500), (name,)))

    await door.wait(ClientLeft)
    assert door.all(FlushReported)


# --- many ------------------------------------------------------------------------------------


async def test_three_hundred_clients_are_told_at_once(door):
    clients = await asyncio.gather(*(door.connect() for _ in range(300)))
    await asyncio.gather(*(client.greet(rank=rank) for rank, client in enumerate(clients)))
    names = tuple(joined.session for joined in door.all(ClientJoined))

    began = time.monotonic()
    door.socket.tell(Tell(view(), names))
    took_seconds = time.monotonic() - began

    assert took_seconds < 0.25
    assert door.all(AllTold) == [AllTold("n-1", 300)]
    for client in clients:
        await client.hear("notice")


async def test_no_descriptor_is_left_behind(door):
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    await (await door.join()).close()
    await until(lambda: not door.socket._sessions)
    before = descriptors()

    for round_ in range(3):
        clients = [await door.join(rank=round_) for _ in range(20)]
        for client in clients[:10]:
            client.say("bye")
        clients[10].say_raw(b"x" * 20_000)
        for client in clients:
            await client.close()
        await until(lambda: not door.socket._sessions)

    assert descriptors() == before


async def test_connections_are_limited_for_each_user(directory):
    async with Door(directory, max_connections_per_user=2) as door:
        first, _second = await door.join(), await door.join()
        third = await door.connect()

        assert "too many" in await third.hear_error("rate")
        assert await third.sees_end()

        await first.close()
        await until(lambda: len(door.socket._sessions) == 1)
        await door.join()


async def test_connections_are_limited_in_all(directory):
    async with Door(directory, max_connections=1) as door:
        await door.join()

        await (await door.connect()).hear_error("rate")


async def test_without_descriptors_clients_wait_and_are_let_in_later(door, monkeypatch):
    from lastcall.serve import socket as agent_socket  # noqa: PLC0415 - its name is that of ours

    monkeypatch.setattr(agent_socket, "NO_DESCRIPTORS_SECONDS", 0.05)
    real, failures = door.socket._listener, []

    class Failing:
        def fileno(self) -> int:
            return real.fileno()

        def accept(self) -> object:
            if len(failures) < 3:
                failures.append(1)
                raise OSError(24, "Too many open files")
            return real.accept()

        def close(self) -> None:
            real.close()

    door.socket._listener = Failing()

    await door.join()

    assert len(failures) == 3


async def test_an_answer_to_a_full_socket_is_no_loss_to_others(door):
    clients = [await door.join(rank=rank) for rank in range(3)]
    names = [joined.session for joined in door.all(ClientJoined)]
    await clients[1].close()

    for name in names:
        door.socket.confirm(Confirm(name, "checkpoint"))

    await clients[0].hear("ok")
    await clients[2].hear("ok")
