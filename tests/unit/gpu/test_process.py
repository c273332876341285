"""Whether a process is held in the kernel, as procfs shows it."""

import os
from pathlib import Path

import pytest

from lastcall.gpu.process import is_uninterruptible


def procfs(folder: Path, *stats: str) -> Path:
    """Make a procfs with process 57, a line of `stat` for each of its threads."""
    for number, stat in enumerate(stats):
        task = folder / f"57/task/{57 + number}"
        task.mkdir(parents=True)
        (task / "stat").write_text(stat)
    return folder


@pytest.mark.parametrize(
    ("stats", "held"),
    [
        (["57 (python3) D 1 57 57 0"], True),
        (["57 (python3) S 1 57 57 0"], False),
        (["57 (python3) Z 1 57 57 0", "58 (python3) D 1 57 57 0"], True),
        (["57 (python3) Z 1 57 57 0"], False),
        (["57 (a) D (b) S 1 57 57 0"], False),
        (["57 (a b) D 1 57 57 0"], True),
        (["57"], False),
        ([""], False),
    ],
)
def test_a_thread_in_uninterruptible_sleep_holds_it(
    tmp_path: Path, stats: list[str], held: bool
) -> None:
    assert is_uninterruptible(procfs(tmp_path, *stats), 57) is held


def test_what_is_not_there_is_not_held(tmp_path: Path) -> None:
    assert not is_uninterruptible(tmp_path, 57)


def test_one_that_ends_while_it_is_looked_at_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "57/task/57").mkdir(parents=True)

    assert not is_uninterruptible(tmp_path, 57)


def test_a_process_that_runs_is_not_held() -> None:
    assert not is_uninterruptible(Path("/proc"), os.getpid())
