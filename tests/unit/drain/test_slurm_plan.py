"""What a drain of a Slurm node does with each job, and when."""

from __future__ import annotations

from signal import Signals

import pytest

from lastcall.core.commands import Drain
from lastcall.core.model import Kind
from lastcall.drain.slurm.plan import Do, Means, News, Past, Plan, State, Step, View, plan
from lastcall.drain.slurm.processes import Footprint
from lastcall.drain.slurm.text import Job

GROUP = "/slurm/uid_7/job_1/step_0"
SHARED = "/system.slice/slurmd.service"
CATCHES = frozenset({int(Signals.SIGUSR1)})


def a_job(number: int = 1, state: str = "RUNNING", **more: object) -> Job:
    values: dict[str, object] = {"nodes": 1, "may_requeue": True, "is_batch": True}
    return Job(number, str(number), state, **(values | more))  # type: ignore[arg-type]  # by name


def planned(
    *jobs: Job,
    now: float = 0.0,
    training: tuple[str, ...] = (),
    waiting: tuple[str, ...] = (),
    means: Means | None = None,
    footprints: dict[int, Footprint] | None = None,
    pasts: dict[int, Past] | None = None,
    gone: tuple[Job, ...] = (),
    is_listed: bool = True,
    is_cordoned: bool = True,
) -> Plan:
    """Plan for an order that began at 0, whose flushes have until 90 and which ends at 100."""
    view = View(
        order=Drain(
            id="n-1",
            kind=Kind.PREEMPTION,
            reason="",
            began_at=0.0,
            flush_until=90.0,
            deadline=100.0,
            training=frozenset(training),
            waiting=frozenset(waiting),
        ),
        means=means or Means(),
        now=now,
        jobs={job.id: job for job in jobs},
        earlier={job.id: job for job in gone},
        footprints=footprints or {},
        is_listed=is_listed,
        is_cordoned=is_cordoned,
    )
    return plan(view, pasts or {})


def states(found: Plan) -> dict[int, State]:
    return {one.job.id: one.state for one in found.outlooks}


# --- jobs that train ---------------------------------------------------------------------------


def test_a_job_is_left_alone_while_a_flush_of_it_is_not_over():
    other = "/slurm/uid_7/job_1/step_1"
    found = planned(a_job(), training=(GROUP, other), waiting=(other,), now=95.0)

    assert states(found) == {1: State.FLUSHING}
    assert found.steps == ()
    assert found.owes_nothing
    assert not found.is_over


def test_a_job_is_requeued_as_soon_as_its_flushes_are_over():
    found = planned(a_job(), training=(GROUP,), now=5.0)

    assert found.steps == (Step(Do.REQUEUE, a_job()),)
    assert not found.owes_nothing


def test_no_job_is_requeued_before_the_cordon_was_tried():
    found = planned(a_job(), training=(GROUP,), is_cordoned=False)

    assert found.steps == ()
    assert not found.owes_nothing


def test_a_job_is_known_by_the_control_groups_that_its_processes_are_in():
    footprints = {1: Footprint({"/odd/place"}), 2: Footprint({"/other"})}
    found = planned(a_job(1), a_job(2), training=("/odd/place",), footprints=footprints)

    assert [one.trains for one in found.outlooks] == [True, False]
    assert found.steps == (Step(Do.REQUEUE, a_job(1)),)


def test_a_control_group_that_jobs_share_makes_none_of_them_train_and_all_of_them_wait():
    footprints = {1: Footprint({SHARED}), 2: Footprint({SHARED})}
    jobs = (a_job(1), a_job(2))

    waiting = planned(*jobs, training=(SHARED,), waiting=(SHARED,), footprints=footprints, now=95.0)
    over = planned(*jobs, training=(SHARED,), footprints=footprints, now=5.0)
    late = planned(*jobs, training=(SHARED,), footprints=footprints, now=95.0)

    assert set(states(waiting).values()) == {State.FLUSHING}
    assert set(states(over).values()) == {State.WORKING}
    assert [step.do for step in late.steps] == [Do.REQUEUE, Do.REQUEUE]


def test_a_training_job_gets_no_signal():
    footprints = {1: Footprint({GROUP}, CATCHES)}
    found = planned(a_job(), training=(GROUP,), waiting=(GROUP,), footprints=footprints)

    assert found.steps == ()


def test_a_training_job_that_ended_by_itself_is_looked_back_at_once():
    past = Past(has_trained=True)
    found = planned(gone=(a_job(),), pasts={1: past})
    done = planned(gone=(a_job(),), pasts={1: Past(has_trained=True, is_looked_back_at=True)})

    assert found.steps == (Step(Do.LOOK_BACK, a_job()),)
    assert found.news == ()
    assert not found.is_over
    assert done.steps == ()
    assert done.news == (News(a_job(), "gone"),)
    assert done.is_over


def test_one_that_may_not_be_requeued_is_not_looked_back_at():
    kept = a_job(may_requeue=False)
    found = planned(gone=(kept,), pasts={1: Past(has_trained=True)})

    assert found.steps == ()
    assert found.news == (News(kept, "gone"),)


# --- jobs that do not use the socket -----------------------------------------------------------


def test_a_job_that_does_not_use_the_socket_works_until_the_time_for_flushes_is_over():
    early, late = planned(a_job(), now=89.9), planned(a_job(), now=90.0)

    assert states(early) == {1: State.WORKING}
    assert early.steps == ()
    assert early.look_at == 90.0
    assert late.steps == (Step(Do.REQUEUE, a_job()),)


def test_its_script_is_signalled_once_where_it_catches_that():
    footprints = {1: Footprint({"/a"}, CATCHES), 2: Footprint({"/b"}, frozenset({15}))}
    jobs = (a_job(1), a_job(2))

    first = planned(*jobs, footprints=footprints)
    then = planned(*jobs, footprints=footprints, pasts={1: Past(is_signalled=True)})

    assert first.steps == (Step(Do.SIGNAL, a_job(1)),)
    assert then.steps == ()


@pytest.mark.parametrize(
    ("means", "state"), [(Means(signal=""), "RUNNING"), (Means(), "SUSPENDED")]
)
def test_no_signal_is_sent_where_none_is_wished_or_none_would_be_heard(means, state):
    footprints = {1: Footprint({"/a"}, CATCHES)}

    assert planned(a_job(state=state), means=means, footprints=footprints).steps == ()


# --- jobs that stay ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "means", "why"),
    [
        (a_job(may_requeue=False), Means(), "not to be requeued"),
        (a_job(is_batch=False), Means(), "no batch script"),
        (a_job(nodes=2), Means(), 'it has 2 nodes, and drain.slurm.requeue is "single"'),
        (a_job(), Means(requeue="none"), 'drain.slurm.requeue is "none"'),
    ],
)
def test_what_may_not_be_requeued_is_kept_and_reported_when_it_would_have_left(job, means, why):
    early = planned(job, means=means, now=10.0)
    late = planned(job, means=means, now=90.0)

    assert early.news == ()
    assert states(late) == {1: State.KEPT}
    assert late.steps == ()
    assert [news.outcome for news in late.news] == ["blocked"]
    assert why in late.news[0].detail
    assert late.owes_nothing
    assert not late.is_over


def test_what_is_kept_is_reported_once():
    past = Past(said=frozenset({"blocked"}))

    assert planned(a_job(is_batch=False), now=95.0, pasts={1: past}).news == ()


def test_a_job_of_several_nodes_is_requeued_where_that_is_wished():
    found = planned(a_job(nodes=2), training=(GROUP,), means=Means(requeue="all"))

    assert found.steps == (Step(Do.REQUEUE, a_job(nodes=2)),)


# --- what was asked for ------------------------------------------------------------------------


def test_a_job_that_slurm_has_agreed_to_requeue_is_leaving_and_asked_no_more():
    found = planned(a_job(), training=(GROUP,), pasts={1: Past(is_asked=True)})

    assert states(found) == {1: State.LEAVING}
    assert found.steps == ()
    assert found.owes_nothing
    assert not found.is_over


def test_a_job_that_ends_already_is_only_waited_for():
    found = planned(a_job(state="COMPLETING"), now=95.0)

    assert states(found) == {1: State.LEAVING}
    assert found.steps == ()


def test_a_refusal_is_tried_again_later_and_nobody_waits_for_it():
    past = Past(trouble="Access/permission denied", again_at=12.0)
    before = planned(a_job(), training=(GROUP,), pasts={1: past}, now=11.0)
    after = planned(a_job(), training=(GROUP,), pasts={1: past}, now=12.0)

    assert before.steps == ()
    assert before.look_at == 12.0
    assert before.owes_nothing
    assert after.steps == (Step(Do.REQUEUE, a_job()),)


def test_a_job_that_was_requeued_is_not_reported_again_when_it_is_gone():
    past = Past(is_asked=True, said=frozenset({"evicted"}))
    found = planned(gone=(a_job(),), pasts={1: past})

    assert found.news == ()
    assert found.is_over


# --- the end -----------------------------------------------------------------------------------


def test_it_is_over_when_no_job_is_left():
    assert planned().is_over
    assert not planned(is_listed=False).is_over
    assert not planned(is_cordoned=False).is_over


def test_it_is_over_a_moment_before_the_deadline_whatever_is_left():
    assert not planned(a_job(), now=98.9).is_over
    assert planned(a_job(), now=99.0).is_over


def test_nothing_is_owed_to_anybody_only_once_the_jobs_are_known():
    assert not planned(is_listed=False).owes_nothing
    assert planned().owes_nothing
