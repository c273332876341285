"""Turns: everyone in order, a little at a time, with the loop's other work in between."""

from __future__ import annotations

import asyncio

from lastcall.serve.turns import TURNS_PER_ROUND, Turns


class Worker:
    """Has so many pieces of work, and writes down when it does one."""

    def __init__(self, name: str, pieces: int, diary: list[str]) -> None:
        self.name = name
        self.pieces = pieces
        self.aborted = False
        self._diary = diary

    def take_turn(self) -> bool:
        if not self.pieces:
            raise RuntimeError("no work")
        self._diary.append(self.name)
        self.pieces -= 1
        return self.pieces > 0

    def abort(self) -> None:
        self.aborted = True


async def rest(rounds: int = 20) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


async def test_those_with_much_to_do_alternate():
    diary: list[str] = []
    turns = Turns()
    for name, pieces in (("a", 3), ("b", 1), ("c", 2)):
        turns.join(Worker(name, pieces, diary))

    await rest()

    assert diary == ["a", "b", "c", "a", "c", "a"]


async def test_who_waits_already_gets_one_turn():
    diary: list[str] = []
    turns, worker = Turns(), Worker("a", 1, diary)
    turns.join(worker)
    turns.join(worker)

    await rest()

    assert diary == ["a"]
    assert not worker.aborted


async def test_between_rounds_the_loop_does_other_work():
    diary: list[str] = []
    turns = Turns()
    for number in range(3 * TURNS_PER_ROUND):
        turns.join(Worker(f"w{number}", 1, diary))
    asyncio.get_running_loop().call_soon(diary.append, "other work")

    await rest()

    assert diary.index("other work") == TURNS_PER_ROUND
    assert len(diary) == 3 * TURNS_PER_ROUND + 1


async def test_a_fault_in_one_turn_ends_that_one_alone(capsys):
    diary: list[str] = []
    turns, faulty = Turns(), Worker("faulty", 0, diary)
    turns.join(faulty)
    turns.join(Worker("b", 2, diary))

    await rest()

    assert faulty.aborted
    assert diary == ["b", "b"]
    assert "no work" in capsys.readouterr().out
