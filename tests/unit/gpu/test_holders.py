"""Who holds the GPUs, on a made-up /proc and on the real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lastcall.core.gpu.model import Holder
from lastcall.gpu.holders import Holders

GPU, OTHER = "GPU-1", "GPU-2"


@pytest.fixture(autouse=True)
def pid_max(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/pid_max").write_text("32768\n")


def process(
    proc: Path,
    pid: int,
    *,
    parent: int = 1,
    started: int = 100,
    name: str = "python3",
    command: bytes = b"python3\0train.py\0",
    thread_state: str = "S",
) -> None:
    def stat(state: str) -> str:
        return f"{pid} ({name}) {state} {parent} " + "0 " * 17 + f"{started} 0 0\n"

    for task in (pid, pid + 1):
        (proc / str(pid) / "task" / str(task)).mkdir(parents=True, exist_ok=True)
        state = thread_state if task != pid else "S"
        (proc / str(pid) / "task" / str(task) / "stat").write_text(stat(state))
    (proc / str(pid) / "stat").write_text(stat("S"))
    (proc / str(pid) / "cmdline").write_bytes(command)


def end(proc: Path, pid: int) -> None:
    (proc / str(pid) / "stat").unlink()


def test_a_process_is_named_after_it_has_held_a_gpu_for_a_while(tmp_path: Path) -> None:
    process(tmp_path, 70)
    holders = Holders(tmp_path)
    holders.take(0.0, GPU, [70])

    assert holders.named(29.0) == ()
    assert holders.named(30.0) == (Holder(70, (GPU,), "python3 train.py", (1,)),)


def test_it_is_named_with_all_its_gpus(tmp_path: Path) -> None:
    process(tmp_path, 70)
    holders = Holders(tmp_path, after_seconds=0.0)

    holders.take(0.0, OTHER, [70, 70])
    holders.take(0.0, GPU, [70])

    assert [holder.gpus for holder in holders.named(0.0)] == [(GPU, OTHER)]


def test_who_lets_go_of_all_gpus_is_not_named_any_more(tmp_path: Path) -> None:
    process(tmp_path, 70)
    holders = Holders(tmp_path, after_seconds=0.0)
    holders.take(0.0, GPU, [70])
    holders.take(0.0, OTHER, [70])

    holders.take(10.0, GPU, [])
    assert [holder.gpus for holder in holders.named(10.0)] == [(OTHER,)]
    holders.take(10.0, OTHER, [])

    assert holders.named(10.0) == ()


def test_who_comes_back_begins_anew(tmp_path: Path) -> None:
    process(tmp_path, 70)
    holders = Holders(tmp_path)
    holders.take(0.0, GPU, [70])
    holders.take(10.0, GPU, [])

    holders.take(20.0, GPU, [70])

    assert holders.named(40.0) == ()
    assert len(holders.named(50.0)) == 1


def test_a_process_that_ended_is_not_named_though_its_gpu_is_not_read(tmp_path: Path) -> None:
    process(tmp_path, 70)
    holders = Holders(tmp_path, after_seconds=0.0)
    holders.take(0.0, GPU, [70])

    end(tmp_path, 70)

    assert holders.named(60.0) == ()


def test_another_process_under_the_same_number_is_another(tmp_path: Path) -> None:
    process(tmp_path, 70, started=100)
    holders = Holders(tmp_path)
    holders.take(0.0, GPU, [70])

    process(tmp_path, 70, started=200, command=b"other")
    assert holders.named(60.0) == ()
    holders.take(60.0, GPU, [70])

    assert holders.named(89.0) == ()
    assert [holder.command for holder in holders.named(90.0)] == ["other"]


def test_numbers_of_another_namespace_are_counted_once(tmp_path: Path) -> None:
    process(tmp_path, 70)
    holders = Holders(tmp_path, after_seconds=0.0)

    holders.take(0.0, GPU, [70, 900, 901])
    holders.take(0.0, OTHER, [901])
    assert holders.unseen == 2
    holders.take(10.0, GPU, [70])
    assert holders.unseen == 1

    assert [holder.pid for holder in holders.named(10.0)] == [70]


@pytest.mark.parametrize("pid", [0, -1, 32769, 4294967295])
def test_what_can_be_no_process_is_ignored(tmp_path: Path, pid: int) -> None:
    holders = Holders(tmp_path, after_seconds=0.0)

    holders.take(0.0, GPU, [pid])

    assert holders.unseen == 0
    assert holders.named(0.0) == ()


def test_a_command_line_is_one_short_line(tmp_path: Path) -> None:
    process(tmp_path, 70, command=b"python3\0train\n\x1b[31m\xff.py\0" + b"x" * 5000)
    holders = Holders(tmp_path, after_seconds=0.0)
    holders.take(0.0, GPU, [70])

    (holder,) = holders.named(0.0)

    assert holder.command.startswith("python3 train[31m�.py xxx")
    assert len(holder.command) == 200


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (b"python3\0-u\0-m\0train\0--token=abc", "python3 -u -m train"),
        (b"python3\0train.py\0--password\0abc", "python3 train.py"),
        (b"env\0KEY=abc\0python3", "env"),
        (b"python3\0-c\0key = 1", "python3"),
    ],
)
def test_how_a_process_was_started_may_be_secret(
    tmp_path: Path, command: bytes, shown: str
) -> None:
    process(tmp_path, 70, command=command)
    holders = Holders(tmp_path, after_seconds=0.0)
    holders.take(0.0, GPU, [70])

    assert [holder.command for holder in holders.named(0.0)] == [shown]


def test_a_name_with_brackets_confuses_nothing(tmp_path: Path) -> None:
    process(tmp_path, 70, name="a) R 7 (b", parent=60)
    process(tmp_path, 60, parent=1)
    holders = Holders(tmp_path, after_seconds=0.0)
    holders.take(0.0, GPU, [70])

    assert [holder.parents for holder in holders.named(0.0)] == [(60, 1)]


def test_parents_are_followed_upward_and_not_for_ever(tmp_path: Path) -> None:
    for pid in range(100, 140):
        process(tmp_path, pid, parent=pid + 1)
    process(tmp_path, 70, parent=71)
    process(tmp_path, 71, parent=70)
    holders = Holders(tmp_path, after_seconds=0.0)
    holders.take(0.0, GPU, [100, 70])

    of_a_circle, of_a_long_line = holders.named(0.0)

    assert len(of_a_circle.parents) == 16
    assert of_a_long_line.parents == tuple(range(101, 117))


def test_the_memory_of_a_process_that_hangs_is_not_touched(tmp_path: Path) -> None:
    process(tmp_path, 70, thread_state="D")
    holders = Holders(tmp_path, after_seconds=0.0)
    holders.take(0.0, GPU, [70])
    assert [holder.command for holder in holders.named(0.0)] == ["[python3]"]

    process(tmp_path, 70, thread_state="S")
    holders.take(10.0, GPU, [70])

    assert [holder.command for holder in holders.named(10.0)] == ["python3 train.py"]


def test_a_command_line_that_is_known_is_not_read_again(tmp_path: Path) -> None:
    process(tmp_path, 70)
    holders = Holders(tmp_path, after_seconds=0.0)
    holders.take(0.0, GPU, [70])

    (tmp_path / "70/cmdline").unlink()
    holders.take(10.0, GPU, [70])

    assert [holder.command for holder in holders.named(10.0)] == ["python3 train.py"]


@pytest.mark.parametrize("content", ["", "70 (python3", "70 (python3) S x 0", "70 (a) S 1"])
def test_a_process_that_cannot_be_read_is_unseen(tmp_path: Path, content: str) -> None:
    process(tmp_path, 70)
    (tmp_path / "70/stat").write_text(content)
    holders = Holders(tmp_path, after_seconds=0.0)

    holders.take(0.0, GPU, [70])

    assert (holders.unseen, holders.named(0.0)) == (1, ())


def test_the_tests_own_process_is_found() -> None:
    holders = Holders(after_seconds=0.0)

    holders.take(0.0, GPU, [os.getpid()])
    (holder,) = holders.named(0.0)

    assert "py" in holder.command
    assert holder.parents[0] == os.getppid()
