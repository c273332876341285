"""What a peer's program is called, without what its options may hold."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from lastcall.serve import programs
from lastcall.serve.programs import Programs, essence, program_of
from support.agent_socket import program, until


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python", "train.py", "--key", "secret"], "python train.py"),
        (["python", "-u", "-OO", "train.py", "secret"], "python train.py"),
        (["python", "-m", "trainer.main", "secret"], "python trainer.main"),
        (["python", "-u", "-m", "trainer.main"], "python trainer.main"),
        (["python", "-c", "key = 'secret'"], "python"),
        (["python", "-X", "dev", "train.py"], "python"),
        (["trainer", "--key", "secret"], "trainer"),
        (["trainer"], "trainer"),
        (["python", "-m"], "python"),
        ([], ""),
    ],
)
def test_a_command_line_is_shown_without_its_options(words, expected):
    assert essence(words) == expected


def test_a_process_that_is_gone_has_no_program():
    with program("") as process:
        process.wait()

    assert program_of(process.pid) == ""


async def test_the_answer_comes_on_the_event_loop():
    found = Programs()
    answers: list[tuple[str, int]] = []

    found.ask(os.getpid(), lambda name: answers.append((name, threading.get_ident())))

    await until(lambda: answers)
    assert answers == [(program_of(os.getpid()), threading.get_ident())]
    assert "py" in answers[0][0]
    found.close()


async def test_a_process_that_hangs_in_the_kernel_holds_up_nobody(monkeypatch):
    stuck, free = threading.Event(), threading.Event()

    def hang(pid: int) -> str:
        stuck.set()
        free.wait(5)
        return "late"

    monkeypatch.setattr(programs, "program_of", hang)
    monkeypatch.setattr(programs, "QUESTIONS_LIMIT", 3)
    found = Programs()
    answers: list[str] = []

    found.ask(1, answers.append)
    await until(stuck.is_set)
    for _ in range(4):
        found.ask(1, answers.append)

    assert answers == [""], "one more than may wait is answered at once"
    free.set()
    await until(lambda: len(answers) == 5)
    found.close()


async def test_an_answer_that_comes_after_the_loop_is_lost_in_silence(monkeypatch):
    asked, ended = threading.Event(), threading.Event()
    monkeypatch.setattr(programs, "program_of", lambda _: str(asked.set() or ended.wait(5)))
    found = Programs()

    async def ask() -> None:
        found.ask(os.getpid(), lambda _: None)

    await asyncio.to_thread(asyncio.run, ask())
    await until(asked.is_set)
    (thread,) = [t for t in threading.enumerate() if t.name == "lastcall-programs"]
    ended.set()
    found.close()

    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()
