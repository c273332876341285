"""The agent's view of its node as plain data: for ``lastcall status``, ``/status`` and the page.

The keys are described in ``docs/reference/status.md``. Ages and what remains are seconds
(``…_seconds``), moments are Unix seconds (``…_unix``); what is not known is ``None``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lastcall.core.deadlines import left
from lastcall.core.estimates import JobAdvice, JobHistory
from lastcall.core.flushes import unsaved_seconds
from lastcall.core.model import Client, Flush, Node, Notice, Outcome, Phase, SourceHealth
from lastcall.core.views import view
from lastcall.record import gpu_status
from lastcall.record.gpu_readings import GpuReadings, SeenGpus

SHOWN_ENDED = 20
"""Ended notices that are shown, the latest first."""

QUIET = "quiet"

_DURABLE = (Outcome.IN_TIME, Outcome.LATE)

_PHASES = (Phase.DRAINING, Phase.FLUSHING, Phase.TOLD, Phase.SEEN)


def status(
    node: Node,
    *,
    now: float,
    wall: float,
    agent: Mapping[str, Any],
    advice: Callable[[Node, str], JobAdvice] | None = None,
    reserve_seconds: float = 0.0,
    drain: Mapping[str, Any] | None = None,
    gpus: GpuReadings | None = None,
) -> dict[str, Any]:
    """Return what the agent knows, ready for JSON.

    Args:
        node: what it knows.
        now: the present on the clock of the node's times.
        wall: the present in Unix seconds.
        agent: what is to be said of the agent itself.
        advice: returns what is known of a job's next flush; without it that is unknown.
        reserve_seconds: what is kept back from a deadline for the drain.
        drain: what the drain backend shows of itself.
        gpus: where the figures of the GPUs are; without it there are none.
    """
    whole = _Status(node, now, wall, advice, reserve_seconds).whole(agent, drain or {})
    whole["gpu"] = gpu_status.show(node, SeenGpus(node, gpus, now), now=now, to_unix=wall - now)
    return whole


class _Status:
    """One look at the node, at one moment."""

    def __init__(
        self,
        node: Node,
        now: float,
        wall: float,
        advice: Callable[[Node, str], JobAdvice] | None,
        reserve_seconds: float,
    ) -> None:
        self._node = node
        self._now = now
        self._to_unix = wall - now
        self._advice = advice
        self._reserve_seconds = reserve_seconds
        self._clients_by_job: dict[str, list[Client]] = {}
        for client in node.clients.values():
            self._clients_by_job.setdefault(client.job, []).append(client)

    def whole(self, agent: Mapping[str, Any], drain: Mapping[str, Any]) -> dict[str, Any]:
        node = self._node
        ended = [notice for notice in node.notices.values() if not notice.open]
        ended.sort(key=lambda notice: notice.ended_at or 0.0, reverse=True)
        jobs = dict.fromkeys([*node.jobs, *self._clients_by_job])
        return {
            "agent": dict(agent),
            "summary": self._summary(),
            "providers": list(node.providers),
            "provider_detail": node.provider_detail,
            "identity": dict(node.identity),
            "sources": [self._source(name, health) for name, health in node.sources.items()],
            "notices": [self._notice(n) for n in (*node.open_notices, *ended[:SHOWN_ENDED])],
            "clients": [self._client(client) for client in node.clients.values()],
            "jobs": [self._job(job) for job in jobs],
            "drain": {
                "cordoned": node.cordoned_for is not None,
                "cordoned_for": node.cordoned_for,
                "cordoned_unix": self._unix(node.cordoned_at),
                "giving_back": node.giving_back,
                **drain,
            },
        }

    def _summary(self) -> dict[str, Any]:
        node, notices = self._node, self._node.open_notices
        phases = {notice.phase for notice in notices}
        remaining = [n.deadline for n in notices if n.told and n.deadline is not None]
        unsettled = [flush for notice in notices if notice.told for flush in notice.unsettled]
        return {
            "phase": next((phase.value for phase in _PHASES if phase in phases), QUIET),
            "notices_open": len(notices),
            "notices_ended": len(node.notices) - len(notices),
            "remaining_seconds": self._until(min(remaining, default=None)),
            "flushes_open": len(unsettled),
            "clients_connected": sum(c.session is not None for c in node.clients.values()),
            "clients_away": sum(c.session is None for c in node.clients.values()),
            "jobs": len(self._clients_by_job),
            "sources_up": sum(health.up for health in node.sources.values()),
            "sources_down": sum(not health.up for health in node.sources.values()),
            "interruptions": node.interruptions,
        }

    def _source(self, name: str, health: SourceHealth) -> dict[str, Any]:
        return {
            "source": name,
            "up": health.up,
            "result": health.result,
            "troubles": dict(health.troubles),
            "last_success_age_seconds": self._age(health.last_success),
            "last_success_unix": self._unix(health.last_success),
            "clock_skew_seconds": _rounded(health.skew_seconds),
        }

    def _notice(self, notice: Notice) -> dict[str, Any]:
        shown = view(notice, self._reserve_seconds)
        lead_seconds = None
        if shown.deadline is not None:
            lead_seconds = left(shown.deadline, shown.first_seen)
        stated_unix = shown.deadline_unix
        return {
            "id": shown.id,
            "phase": shown.phase.value,
            "open": notice.open,
            "kind": shown.kind.value,
            "source": shown.source,
            "sources": list(shown.sources),
            "action": shown.action.value,
            "urgency": shown.urgency.value,
            "reason": shown.reason,
            "drill": shown.drill,
            "cancellable": shown.cancellable,
            "first_seen_unix": self._unix(shown.first_seen),
            "told_unix": self._unix(notice.told_at),
            "deadline_quality": shown.deadline_quality.value,
            "deadline_unix": self._unix(shown.deadline) if stated_unix is None else stated_unix,
            "lead_seconds": _rounded(lead_seconds),
            "remaining_seconds": self._until(shown.deadline) if notice.open else None,
            "budget_seconds": self._until(shown.flush_until) if notice.open else None,
            "supersedes": list(shown.supersedes),
            "drained": notice.drained,
            "acknowledged": notice.accepted is True,
            "lost_jobs": sorted(notice.lost_jobs),
            "ending": notice.ending,
            "ended_unix": self._unix(notice.ended_at),
            "flushes": [self._flush(notice, flush) for flush in notice.flushes.values()],
        }

    def _flush(self, notice: Notice, flush: Flush) -> dict[str, Any]:
        return {
            "client": flush.client,
            "job": flush.job,
            "rank": flush.rank,
            "outcome": flush.outcome.value if flush.outcome else None,
            "cause": flush.cause,
            "will": flush.will,
            "phase": flush.phase,
            "bytes": flush.bytes,
            "total_bytes": flush.total_bytes,
            "step": flush.step,
            "path": flush.path,
            "told_unix": self._unix(flush.told_at),
            "acked_after_seconds": _between(flush.told_at, flush.acked_at),
            "begun_after_seconds": _between(flush.told_at, flush.begun_at),
            "settled_after_seconds": _between(flush.told_at, flush.settled_at),
            "margin_seconds": (
                _between(flush.settled_at, notice.deadline) if flush.outcome in _DURABLE else None
            ),
        }

    def _client(self, client: Client) -> dict[str, Any]:
        return {
            "client": client.key,
            "job": client.job,
            "rank": client.rank,
            "local_rank": client.local_rank,
            "world_size": client.world_size,
            "pid": client.pid,
            "uid": client.uid,
            "command": client.command,
            "library": client.library,
            "connected": client.session is not None,
            "joined_unix": self._unix(client.joined_at),
            "heard_age_seconds": self._age(client.heard_at),
            "away_seconds": self._age(client.left_at),
            "step": client.step,
            "section": client.section,
            "checkpoint_age_seconds": self._age(self._history(client.job).last_at),
            "unsaved_seconds": self._unsaved(client),
        }

    def _job(self, job: str) -> dict[str, Any]:
        history = self._history(job)
        advised = (
            self._advice(self._node, job) if self._advice else JobAdvice(None, "unknown", None)
        )
        clients = self._clients_by_job.get(job, [])
        return {
            "job": job,
            "clients": len(clients),
            "checkpoint_age_seconds": self._age(history.last_at),
            "checkpoint_unix": self._unix(history.last_at),
            "checkpoint_step": history.last_step,
            "checkpoint_path": history.last_path,
            "unsaved_seconds": max((self._unsaved(client) for client in clients), default=None),
            "checkpoint_interval_seconds": _rounded(advised.interval_seconds),
            "flush_fits": advised.fits,
            "predicted_flush_seconds": _rounded(advised.predicted_seconds),
        }

    def _history(self, job: str) -> JobHistory:
        return self._node.jobs.get(job, JobHistory())

    def _unsaved(self, client: Client) -> float:
        """Return how much work would be lost if the client ended now."""
        return _round(unsaved_seconds(self._node, client.job, client, self._now) or 0.0)

    def _age(self, at: float | None) -> float | None:
        return _between(at, self._now)

    def _until(self, at: float | None) -> float | None:
        return None if at is None else _round(left(at, self._now))

    def _unix(self, at: float | None) -> float | None:
        return None if at is None else _round(at + self._to_unix)


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else _round(end - begin)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else _round(seconds)


def _round(seconds: float) -> float:
    return round(seconds, 3)
