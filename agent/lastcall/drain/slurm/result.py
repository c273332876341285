"""What is said of a drained Slurm node: how it ended, and where each job stands meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lastcall.drain.slurm.plan import NOTHING, Outlook, Past, State

DETAIL_CHARACTERS = 1000
"""A result has at most about so many; it stands in the journal."""

ROWS = 100
"""So many jobs are shown, those first that are still to leave."""

_ORDER = (State.KEPT, State.ASKING, State.FLUSHING, State.WORKING, State.LEAVING, State.GONE)


def result_of(
    outlooks: Collection[Outlook],
    pasts: Mapping[int, Past],
    *,
    is_listed: bool,
    list_trouble: str,
) -> tuple[str, str]:
    """Return how a drain ended, and what there is to say.

    It ends as ``drained``, ``incomplete`` or ``failed``.

    Args:
        outlooks: where each job stands.
        pasts: what was done about them.
        is_listed: it is known which jobs there are.
        list_trouble: why they could not be listed, where that is so.
    """
    if not is_listed:
        why = list_trouble or "no answer came in time"
        return "failed", f"the node's jobs could not be listed: {why}"
    staying = [one for one in sorted(outlooks, key=_rank) if one.state is not State.GONE]
    if not staying:
        return "drained", _left(len(outlooks))
    named = _joined([f"{job_name(one)} ({_standing(one)})" for one in staying])
    said = [pasts.get(one.job.id, NOTHING) for one in outlooks]
    trouble = next((past.trouble for past in said if past.trouble), "")
    if trouble and not any(past.is_asked for past in said):
        return "failed", f"Slurm requeues no job: {trouble}: {named}"
    return "incomplete", f"{len(staying)} of {len(outlooks)} jobs have not left: {named}"


def rows(outlooks: Collection[Outlook]) -> list[Mapping[str, str]]:
    """Return the jobs as they are shown, those first that are still to leave."""
    return [
        {
            "job": job_name(one),
            "class": "training" if one.trains else "other",
            "state": one.state.value,
            "detail": one.detail,
        }
        for one in sorted(outlooks, key=_rank)[:ROWS]
    ]


def job_name(one: Outlook) -> str:
    """Return how a job is named wherever it is reported."""
    return f"job/{one.job.name}"


def _rank(one: Outlook) -> tuple[int, int]:
    return _ORDER.index(one.state), one.job.id


def _left(count: int) -> str:
    if not count:
        return "no job was on the node"
    return "1 job has left" if count == 1 else f"{count} jobs have left"


def _standing(one: Outlook) -> str:
    return f"{one.state.value}: {one.detail}" if one.detail else one.state.value


def _joined(texts: list[str]) -> str:
    """Return as many of the texts as have room, and how many more there are."""
    room = DETAIL_CHARACTERS * 2 // 3
    shown: list[str] = []
    for text in texts:
        room -= len(text) + 2
        if room < 0 and shown:
            break
        shown.append(text)
    more = len(texts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
