"""The pieces of ``lastcall demo``: its model, its checkpoints, its collective, its accounts."""

from __future__ import annotations

import tempfile
import threading

import pytest

from lastcall.cli.demo import model
from lastcall.cli.demo.checkpoint import KEPT, MANIFEST, Storage
from lastcall.cli.demo.collective import Collective
from lastcall.cli.demo.job import Heard
from lastcall.cli.demo.outcome import flushes, outcome, samples
from lastcall.cli.demo.scenario import DemoError, child_environment
from lastcall.cli.demo.story import workplace


def state_after(*steps):
    state = model.initial_state()
    for step in steps:
        state = model.advance(state, sum(model.gradient(state, rank, step) for rank in range(2)))
    return state


def test_the_model_tells_every_step_apart():
    right = model.expected_state(4, world_size=2)

    assert state_after(1, 2, 3, 4) == right
    assert state_after(1, 2, 4) != right
    assert state_after(1, 2, 3, 3, 4) != right
    assert state_after(1, 3, 2, 4) != right


def on_ranks(count, path, work):
    """Run something on so many ranks, each in a thread, and return what each returned."""
    results = [None] * count

    def run(rank):
        with Collective(path, rank, count) as ranks:
            results[rank] = work(rank, ranks)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return results


@pytest.mark.parametrize("count", [1, 4])
def test_all_ranks_learn_the_same_sum(tmp_path, count):
    results = on_ranks(count, tmp_path / "c", lambda rank, ranks: ranks.sum(2**60 + rank))

    assert results == [count * 2**60 + sum(range(count))] * count


@pytest.mark.parametrize("knowing", [0, 2])
def test_one_rank_that_knows_is_enough_for_all(tmp_path, knowing):
    results = on_ranks(3, tmp_path / "c", lambda rank, ranks: ranks.any(rank == knowing))

    assert results == [True] * 3


def test_no_rank_knows_unless_one_does(tmp_path):
    assert on_ranks(3, tmp_path / "c", lambda rank, ranks: ranks.any(False)) == [False] * 3


def go_on(ranks):
    while True:
        ranks.barrier()


def test_a_rank_that_goes_is_noticed_by_the_others(tmp_path):
    def work(rank, ranks):
        if rank == 1:
            return None
        with pytest.raises(OSError, match=r"gone|reset|pipe"):
            go_on(ranks)
        return "noticed"

    assert on_ranks(2, tmp_path / "c", work) == ["noticed", None]


def storage(directory, bytes_per_second=1e12):
    return Storage(directory, shard_bytes=1000, bytes_per_second=bytes_per_second)


def nothing():
    """A barrier for one rank."""


def test_what_was_saved_is_what_is_loaded(tmp_path):
    store = storage(tmp_path)

    path = store.save(50, 12345, 0, nothing)

    assert path.is_dir()
    assert store.newest() == 50
    assert store.load(50, 0) == 12345


def test_a_checkpoint_counts_only_once_every_rank_has_written(tmp_path):
    class KilledError(Exception):
        pass

    def killed_at_the_barrier():
        raise KilledError

    with pytest.raises(KilledError):
        storage(tmp_path).save(50, 1, 0, killed_at_the_barrier)

    assert storage(tmp_path).newest() is None


def test_a_half_written_one_of_an_earlier_start_is_written_anew(tmp_path):
    (tmp_path / "step-000050").mkdir()
    (tmp_path / "step-000050" / "rank-0").write_bytes(b"half")
    store = storage(tmp_path)

    store.save(50, 7, 0, nothing)

    assert store.load(50, 0) == 7


def test_a_damaged_shard_is_not_loaded(tmp_path):
    store = storage(tmp_path)
    shard = store.save(50, 7, 0, nothing) / "rank-0"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")

    with pytest.raises(ValueError, match="step 50, rank 0, is damaged"):
        store.load(50, 0)


def test_old_checkpoints_are_removed(tmp_path):
    store = storage(tmp_path)
    for step in (10, 20, 30, 40):
        store.save(step, step, 0, nothing)

    kept = sorted(place.name for place in tmp_path.iterdir())

    assert kept == ["step-000030", "step-000040"]
    assert len(kept) == KEPT
    assert all((tmp_path / name / MANIFEST).exists() for name in kept)


def heard(rank_0):
    """Return what a start said, each step a second after the one before."""
    said = Heard()
    for at_unix, (name, facts) in enumerate(rank_0):
        said.by_name[name].append({"rank": 0, "event": name, "at_unix": float(at_unix), **facts})
    return said


def steps(*numbers):
    return [("step", {"step": number}) for number in numbers]


def test_a_step_that_is_done_twice_is_counted_and_its_time_is_lost():
    first = heard([*steps(1, 2), ("saved", {"step": 2}), *steps(3, 4)])
    second = heard([("started", {"step": 2}), *steps(3, 4, 5), ("finished", {"state": 9})])

    result = outcome(first, second, expected_state=9)

    assert (result.resumed_from, result.steps_redone, result.lost_seconds) == (2, 2, 2.0)
    assert result.verified


def test_without_a_checkpoint_all_since_the_start_is_lost():
    first = heard([("started", {"step": 0}), *steps(1, 2)])
    second = heard([("started", {"step": 0}), *steps(1, 2, 3), ("finished", {"state": 9})])

    result = outcome(first, second, expected_state=9)

    assert (result.resumed_from, result.steps_redone, result.lost_seconds) == (0, 2, 2.0)


def test_after_a_flush_nothing_is_done_twice_or_lost():
    first = heard([*steps(1, 2, 3), ("flushed", {"step": 3})])
    second = heard([("started", {"step": 3}), *steps(4, 5), ("finished", {"state": 8})])

    result = outcome(first, second, expected_state=9)

    assert (result.resumed_from, result.steps_redone, result.lost_seconds) == (3, 0, 0.0)
    assert not result.verified


METRICS = [
    "lastcall_signal_seconds_sum 0.002",
    'lastcall_flushes_total{kind="preemption",outcome="in_time"} 1.0',
    'lastcall_flushes_total{kind="preemption",outcome="late"} 1.0',
    'lastcall_flushes_total{kind="manual",outcome="in_time"} 0.0',
]


def view(*flush_ends):
    return {
        "notices": [
            {
                "lead_seconds": 120.0,
                "deadline_quality": "provider",
                "first_seen_unix": 1000.5,
                "flushes": [
                    {
                        "told_unix": 1000.5,
                        "settled_after_seconds": end,
                        "margin_seconds": None if end is None else 120.0 - end,
                    }
                    for end in flush_ends
                ],
            }
        ]
    }


def test_the_times_are_the_agents_counted_from_when_the_notice_was_shown():
    result = flushes(view(1.0, 3.0), METRICS, shown_unix=1000.0)

    assert result.lead_seconds == 120.0
    assert result.told_after_seconds == pytest.approx(0.502)
    assert result.flushed_after_seconds == 3.5
    assert result.margin_seconds == 117.0
    assert result.in_time == 1


@pytest.mark.parametrize("content", [{"notices": []}, view(), view(1.0, None)])
def test_a_flush_that_the_agent_does_not_know_to_be_over_is_a_failure(content):
    with pytest.raises(DemoError):
        flushes(content, METRICS, shown_unix=1000.0)


def test_samples_are_found_by_their_whole_name():
    assert samples(["a_total 1", "a_total_more 2", 'a_total{x="y z"} 3'], "a_total") == {
        "a_total": 1.0,
        'a_total{x="y z"}': 3.0,
    }


def test_nothing_in_the_environment_leads_a_process_of_the_demo_astray(monkeypatch):
    monkeypatch.setenv("LASTCALL_NOTICES__PROVIDER", "gcp")
    monkeypatch.setenv("SLURM_PROCID", "7")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")

    environment = child_environment(RANK="0")

    assert not [name for name in environment if name.startswith(("LASTCALL_", "SLURM_"))]
    assert environment["RANK"] == "0"
    assert environment["PYTHONPATH"].endswith(":/elsewhere")


def test_sockets_have_a_path_that_is_short_enough_wherever_temporary_files_go(
    tmp_path, monkeypatch
):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))

    with workplace() as place:
        assert len(str(place / "without" / "collective.sock")) <= 107
    assert not place.exists()
