"""The death of a process: said once, soon, and never before its last word was read."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time

import pytest

from lastcall.core.commands import WatchProcess
from lastcall.core.events import Beat, ClientJoined, ClientLeft, FlushReported, ProcessDied
from lastcall.serve import peers
from lastcall.serve.peers import Peer, Process
from lastcall.serve.processes import Processes
from support.agent_socket import Door, program, until, wait_for_line

JOIN = """
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'{"type":"hello","protocol":[1,1],"job":"j","rank":0}\\n')
lines = s.makefile()
lines.readline()
"""
STAY = JOIN + "time.sleep(60)"
FORK = (
    JOIN
    + """
child = os.fork()
if child == 0: time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""
)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("option", [peers.SO_PEERPIDFD, 9999], ids=["this kernel", "an old one"])
async def test_a_killed_process_is_told_though_a_forked_child_holds_its_connection(
    door, monkeypatch, option
):
    monkeypatch.setattr(peers, "SO_PEERPIDFD", option)
    with program(FORK, str(door.path)) as process:
        child = int(await asyncio.to_thread(wait_for_line, process))
        joined = await door.wait(ClientJoined)

        began = time.monotonic()
        process.kill()

        assert await door.wait(ProcessDied) == ProcessDied(joined.identity)
        assert time.monotonic() - began < 1
        assert door.all(ClientLeft) == [
            ClientLeft(joined.session, said_bye=False, reason="its process died")
        ]
        await until(lambda: not door.socket._sessions)
        os.kill(child, signal.SIGKILL)


async def test_what_a_killed_process_had_written_is_heard_before_its_death(door):
    code = JOIN + (
        's.sendall(b\'{"type":"heartbeat"}\\n\' * 1000 + '
        'b\'{"type":"flushed","id":"n","path":"/p","step":1}\\n\')\n'
        "if os.fork(): os.kill(os.getpid(), 9)\n"
        "os.closerange(0, 3)\n"
        "time.sleep(3)\n"
    )
    with program(code, str(door.path)):
        await door.wait(ClientJoined)
        began = time.monotonic()
        await door.wait(ProcessDied)
        assert time.monotonic() - began < 2

    kinds = [type(event) for event in door.events]
    assert kinds == [ClientJoined, *[Beat] * 1000, FlushReported, ClientLeft, ProcessDied]


async def test_the_end_of_a_process_is_told_once_for_all_its_connections(door):
    code = JOIN + "first = s, lines" + JOIN + "time.sleep(60)"
    with program(code, str(door.path)) as process:
        await door.wait(ClientJoined, 2)
        process.kill()

        await door.wait(ProcessDied)
        await until(lambda: not door.socket._sessions)

    assert len(door.all(ClientLeft)) == 2
    assert len(door.all(ProcessDied)) == 1


async def test_a_connection_lost_is_no_death(door):
    client = await door.join()
    await client.close()
    await until(lambda: not door.socket._sessions)

    await asyncio.sleep(0.05)

    assert not door.all(ProcessDied)


async def test_a_process_without_a_connection_is_still_watched(door):
    with program(JOIN + "lines.close(); s.close(); time.sleep(60)", str(door.path)) as process:
        await door.wait(ClientLeft)
        assert not door.all(ProcessDied)
        process.kill()

        await door.wait(ProcessDied)


async def test_a_process_that_was_gone_before_it_was_heard_is_heard_and_told_dead(door):
    code = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'{"type":"hello","protocol":[1,1]}\\n{"type":"flushed","id":"n","path":"/p","step":1}\\n')
"""
    with program(code, str(door.path)) as process:
        process.wait()  # the loop stands still meanwhile: nothing is accepted yet

        await door.wait(ProcessDied)
        kinds = [type(event) for event in door.events]
        assert kinds == [ClientJoined, FlushReported, ClientLeft, ProcessDied]


async def test_a_process_from_before_a_restart_is_watched(door):
    with program(STAY, str(door.path)) as process:
        identity = (await door.wait(ClientJoined)).identity
        again = Door(door.path.parent / "again")
        async with again:
            again.socket.watch_process(WatchProcess(identity, process.pid))
            assert not again.all(ProcessDied)
            process.kill()

            assert await again.wait(ProcessDied) == ProcessDied(identity)


async def test_a_process_that_died_during_a_restart_is_told_at_once(door):
    with program("") as process:
        process.wait()
    door.socket.watch_process(WatchProcess(f"{process.pid}:1", process.pid))
    door.socket.watch_process(WatchProcess(f"{os.getpid()}:1", os.getpid()))

    assert door.all(ProcessDied) == [
        ProcessDied(f"{process.pid}:1"),
        ProcessDied(f"{os.getpid()}:1"),
    ]


async def test_of_a_process_that_cannot_be_seen_nothing_is_said(door, monkeypatch):
    door.socket.watch_process(WatchProcess("claimed:0:j:0:1", 1))
    monkeypatch.setattr(peers, "_start_ticks", lambda pid: None)
    door.socket.watch_process(WatchProcess(f"{os.getpid()}:1", os.getpid()))

    await asyncio.sleep(0.02)

    assert door.events == []


async def test_no_pidfd_is_left_behind(directory):
    before = descriptors()
    async with Door(directory) as door:
        for count in range(1, 4):
            with program(STAY, str(door.path)) as process:
                await door.wait(ClientJoined, count)
                process.kill()
                await door.wait(ProcessDied, count)
        await door.join()
        assert door.socket._services.processes.count == 1

    await until(lambda: descriptors() == before)


# --- what the kernel says --------------------------------------------------------------------


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        yield ours


def test_credentials_are_those_of_whoever_connected(pair):
    assert peers.credentials(pair) == Peer(os.getpid(), os.getuid())


@pytest.mark.parametrize("error_number", [92, 22])
def test_without_the_sockets_pidfd_one_is_opened_by_pid(pair, error_number):
    class Old:
        def getsockopt(self, *_: int) -> int:
            raise OSError(error_number, "Protocol not available")

    process = peers.look_behind(Old(), Peer(os.getpid(), 0))
    assert process.pidfd is not None
    os.close(process.pidfd)
    assert process.name == peers.look_up(os.getpid()).name


def test_a_pid_that_cannot_be_seen_names_nothing():
    assert peers.look_up(0) == Process(0, None, None, dead=False)


def test_a_zombie_is_dead_and_its_name_is_not_trusted():
    with program("") as process:
        time.sleep(0)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        zombie = peers.look_up(process.pid)

    assert (zombie.dead, zombie.name) == (True, None)
    os.close(zombie.pidfd)


def test_a_name_with_brackets_and_spaces_does_not_confuse(monkeypatch, tmp_path):
    stat = b"7 (a) b (c)) S " + b" ".join(str(n).encode() for n in range(4, 40))
    (tmp_path / "stat").write_bytes(stat)
    monkeypatch.setattr("builtins.open", lambda *_: (tmp_path / "stat").open("rb"))

    assert peers._start_ticks(7) == 22


# --- watching, without a socket ----------------------------------------------------------------


class Speaker:
    def __init__(self) -> None:
        self.exhausted = 0

    def exhaust(self) -> None:
        self.exhausted += 1


async def test_two_processes_with_the_same_claim_are_dead_only_once_both_are():
    events = []
    watching = Processes(events.append, limit=10)
    with program("input()") as first, program("input()") as second:
        speakers = [Speaker(), Speaker()]
        watched = [
            watching.watch("claimed:0:j:0:1", peers.look_up(process.pid), speaker)
            for process, speaker in zip((first, second), speakers, strict=True)
        ]
        first.kill()
        await until(lambda: speakers[0].exhausted)
        watching.let_go(watched[0], speakers[0])
        assert events == []
        assert speakers[1].exhausted == 0

        second.kill()
        await until(lambda: speakers[1].exhausted)
        watching.let_go(watched[1], speakers[1])
        assert events == [ProcessDied("claimed:0:j:0:1")]
    assert watching.count == 0


async def test_watched_processes_are_limited_and_the_oldest_without_a_connection_gives_way():
    before = descriptors()
    watching = Processes(lambda event: None, limit=2)
    me = os.getpid
    speaking = watching.watch("1:1", peers.look_up(me()), Speaker())
    silent = watching.watch("2:2", peers.look_up(me()), None)

    third = watching.watch("3:3", peers.look_up(me()), Speaker())
    refused = watching.watch("4:4", peers.look_up(me()), Speaker())

    assert watching.count == 2
    assert (speaking in watching._watched, silent in watching._watched) == (True, False)
    assert third is not None
    assert refused is None
    watching.close()
    assert descriptors() == before
