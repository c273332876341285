"""The kernel's log is read as it comes, and never keeps the loop from other work."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lastcall.gpu import kernel_log
from lastcall.gpu.kernel_lines import KernelXid
from lastcall.gpu.kernel_log import KernelLog
from support.agent_socket import until
from support.needs import leave_out, need_root

NOW = 5000.0
PCI = "00000000:1B:00.0"


def kmsg(xid: int, at: float = 100.0, text: str = "") -> bytes:
    said = f"NVRM: Xid (PCI:0000:1b:00): {xid}, {text}"
    return f"4,77,{int(at * 1e6)},-;{said}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:1b:00.0\n".encode()


@dataclass
class Read:
    """A log under test, and what was heard of it."""

    path: Path
    log: KernelLog = field(init=False)
    seen: list[KernelXid] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = KernelLog(
            self.path, seen=self.seen.append, said=self.said.append, monotonic=lambda: NOW
        )

    def total(self) -> int:
        return sum(found.count for found in self.seen)

    async def to_its_end(self) -> None:
        await until(lambda: not self.log._past)


MakeRead = Callable[[Path], Read]


@pytest.fixture
async def reading(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeRead]:
    monkeypatch.setattr(kernel_log, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(kernel_log, "BURST_SECONDS", 0.1)
    reads: list[Read] = []

    def make(path: Path) -> Read:
        reads.append(Read(path))
        reads[-1].log.start()
        return reads[-1]

    yield make
    for read in reads:
        read.log.close()


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    yield path, writer
    os.close(writer)


async def test_what_was_there_is_past_and_has_the_time_of_its_stamp(
    pipe: tuple[Path, int], reading: MakeRead
) -> None:
    path, writer = pipe
    os.write(writer, b"6,1,20,-;Linux version 6.8\n" + kmsg(79, at=100.5) + kmsg(13, at=9e6))

    read = reading(path)
    await read.to_its_end()

    assert [(found.xid, found.past, found.at) for found in read.seen] == [
        (79, True, 100.5),
        (13, True, NOW),  # a stamp of the future is one of a clock that drifts
    ]


async def test_what_comes_then_is_live(pipe: tuple[Path, int], reading: MakeRead) -> None:
    path, writer = pipe
    read = reading(path)
    await read.to_its_end()

    os.write(writer, kmsg(48, at=NOW - 3))
    await until(lambda: read.seen)

    (found,) = read.seen
    assert (found.xid, found.pci, found.past, found.at) == (48, PCI, False, NOW)


async def test_a_line_may_come_in_pieces(pipe: tuple[Path, int], reading: MakeRead) -> None:
    path, writer = pipe
    read = reading(path)
    await read.to_its_end()

    os.write(writer, kmsg(48)[:30])
    await asyncio.sleep(0)
    os.write(writer, kmsg(48)[30:])
    await until(lambda: read.seen)

    assert [found.xid for found in read.seen] == [48]


async def test_two_errors_at_once_are_two(pipe: tuple[Path, int], reading: MakeRead) -> None:
    path, writer = pipe
    read = reading(path)
    await read.to_its_end()

    os.write(writer, kmsg(62) + kmsg(45))
    await until(lambda: len(read.seen) == 2)

    assert [found.xid for found in read.seen] == [62, 45]


async def test_a_flood_is_counted_exactly_and_told_in_few_reports(
    pipe: tuple[Path, int], reading: MakeRead
) -> None:
    path, _ = pipe
    read = reading(path)
    await read.to_its_end()

    await asyncio.to_thread(path.write_bytes, kmsg(95) * 5000)
    await until(lambda: read.total() == 5000)

    assert read.seen[0].count == 1
    assert len(read.seen) < 100


async def test_a_long_log_leaves_others_their_turn(tmp_path: Path, reading: MakeRead) -> None:
    path = tmp_path / "log"
    path.write_bytes(kmsg(13) * 20000)
    read = reading(path)
    turns = 0
    while read.log._past:
        turns += 1
        await asyncio.sleep(0)

    assert turns > 20000 * 3 / kernel_log.LINES_PER_TURN / 4
    assert read.total() == 20000


async def test_a_plain_file_is_followed_too(tmp_path: Path, reading: MakeRead) -> None:
    path = tmp_path / "log"
    path.write_bytes(kmsg(13))
    read = reading(path)
    await read.to_its_end()

    with path.open("ab") as log:
        log.write(b"[  99.000000] NVRM: Xid (PCI:0000:1b:00): 48, x\n")
    await until(lambda: len(read.seen) == 2)

    assert [(found.xid, found.past) for found in read.seen] == [(13, True), (48, False)]


async def test_a_pipe_whose_writer_leaves_is_taken_up_again(
    tmp_path: Path, reading: MakeRead
) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    read = reading(path)
    await read.to_its_end()

    path.write_bytes(kmsg(13))
    await until(lambda: len(read.seen) == 1)
    path.write_bytes(kmsg(48))
    await until(lambda: len(read.seen) == 2)

    assert [found.xid for found in read.seen] == [13, 48]


async def test_records_that_the_kernel_overwrote_end_nothing(
    pipe: tuple[Path, int], reading: MakeRead, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, writer = pipe
    failures = [OSError(errno.EPIPE, "Broken pipe")]
    really_read = os.read

    def overrun(fd: int, size: int) -> bytes:
        if failures:
            raise failures.pop()
        return really_read(fd, size)

    monkeypatch.setattr(os, "read", overrun)
    os.write(writer, kmsg(79))
    read = reading(path)
    await until(lambda: read.seen)

    assert not read.said


async def test_a_log_that_fails_is_said_and_left(
    pipe: tuple[Path, int], reading: MakeRead, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = pipe

    def fail(_fd: int, _size: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "read", fail)
    read = reading(path)
    await until(lambda: read.said)

    assert read.said == [f"the kernel's log at {path} cannot be read: Input/output error"]
    assert read.log._fd is None


async def test_a_log_that_is_missing_is_said_once(tmp_path: Path, reading: MakeRead) -> None:
    read = reading(tmp_path / "nothing")

    (said,) = read.said
    assert "must be mounted from the host" in said
    assert not read.seen


@pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES])
async def test_a_log_that_is_refused_is_said_with_the_remedy(
    tmp_path: Path, reading: MakeRead, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    read = reading(tmp_path / "kmsg")

    (said,) = read.said
    assert "CAP_SYSLOG" in said


async def test_what_was_counted_is_handed_on_at_the_end(
    pipe: tuple[Path, int], reading: MakeRead
) -> None:
    path, writer = pipe
    read = reading(path)
    await read.to_its_end()
    os.write(writer, kmsg(95) * 5)
    await until(lambda: read.seen)

    read.log.close()
    read.log.close()

    assert [found.count for found in read.seen] == [1, 4]


@pytest.mark.root
async def test_the_kernels_log_itself_is_read_and_what_a_program_writes_there_is_not_believed(
    reading: MakeRead,
) -> None:
    need_root()
    try:
        writer = os.open("/dev/kmsg", os.O_WRONLY)
        os.close(os.open("/dev/kmsg", os.O_RDONLY))
    except OSError as error:
        leave_out(f"needs /dev/kmsg: {error}")
    read = reading(Path("/dev/kmsg"))
    await read.to_its_end()
    before = len(read.seen)

    os.write(writer, b"<4>NVRM: Xid (PCI:fffe:ff:1f): 13, name=lastcall-test, a test\n")
    os.close(writer)
    await asyncio.sleep(0.1)

    assert read.said == []
    assert len(read.seen) == before
