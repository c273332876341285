"""How a drain of a Slurm node is told."""

from __future__ import annotations

from lastcall.drain.slurm.plan import Outlook, Past, State
from lastcall.drain.slurm.result import result_of, rows
from lastcall.drain.slurm.text import Job


def outlook(number: int, state: State, detail: str = "", *, trains: bool = False) -> Outlook:
    job = Job(number, str(number), "RUNNING", 1, may_requeue=True, is_batch=True)
    return Outlook(job, state, trains, detail)


def result(*outlooks: Outlook, pasts: dict[int, Past] | None = None) -> tuple[str, str]:
    return result_of(outlooks, pasts or {}, is_listed=True, list_trouble="")


def test_a_node_without_jobs_is_drained():
    assert result() == ("drained", "no job was on the node")


def test_a_node_that_all_have_left_is_drained():
    gone = [outlook(number, State.GONE) for number in (1, 2)]

    assert result(*gone) == ("drained", "2 jobs have left")
    assert result(gone[0]) == ("drained", "1 job has left")


def test_those_that_stay_are_named_with_what_keeps_them():
    outcome, detail = result(
        outlook(1, State.GONE),
        outlook(2, State.FLUSHING, "its flush is not over"),
        outlook(3, State.KEPT, "it was submitted not to be requeued"),
    )

    assert outcome == "incomplete"
    assert detail == (
        "2 of 3 jobs have not left: job/3 (kept: it was submitted not to be requeued), "
        "job/2 (flushing: its flush is not over)"
    )


def test_a_scheduler_that_requeues_none_is_a_failure():
    pasts = {1: Past(trouble="Access/permission denied")}

    outcome, detail = result(outlook(1, State.ASKING, "Access/permission denied"), pasts=pasts)

    assert outcome == "failed"
    assert detail.startswith("Slurm requeues no job: Access/permission denied: job/1")


def test_one_refusal_among_others_is_no_failure_of_the_whole():
    pasts = {1: Past(trouble="Access/permission denied"), 2: Past(is_asked=True)}

    outcome, _ = result(outlook(1, State.ASKING), outlook(2, State.GONE), pasts=pasts)

    assert outcome == "incomplete"


def test_jobs_that_could_not_be_listed_are_a_failure_with_its_cause():
    why = "squeue took longer than 3 s"

    assert result_of((), {}, is_listed=False, list_trouble=why) == (
        "failed",
        f"the node's jobs could not be listed: {why}",
    )
    assert "no answer came in time" in result_of((), {}, is_listed=False, list_trouble="")[1]


def test_a_long_result_names_some_and_counts_the_rest():
    _, detail = result(*(outlook(number, State.KEPT, "x" * 50) for number in range(100)))

    assert len(detail) < 1000
    assert detail.endswith("more")
    assert "100 of 100 jobs have not left" in detail


def test_jobs_are_shown_with_those_first_that_are_to_leave():
    shown = rows([outlook(1, State.GONE), outlook(2, State.ASKING, "again", trains=True)])

    assert [row["job"] for row in shown] == ["job/2", "job/1"]
    assert shown[0] == {
        "job": "job/2",
        "class": "training",
        "state": "asking",
        "detail": "again",
    }
