"""What becomes known, written down as Kubernetes Events of the node and of its pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from lastcall.core.facts import (
    ClientCame,
    ClientWent,
    Cordoned,
    Fact,
    FlushOverdue,
    FlushSettled,
    GpuHealth,
    NodeDrained,
    NoticeChanged,
    NoticeEnded,
    NoticeSeen,
    NoticeTold,
    PodMoved,
)
from lastcall.core.model import Kind
from lastcall.core.views import NoticeView
from lastcall.drain.kubernetes import notes_text as texts
from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.events import EventText, ObjectRef
from lastcall.drain.kubernetes.notes_clients import KnownClients
from lastcall.drain.kubernetes.notes_flushes import FlushGathering
from lastcall.drain.kubernetes.notes_gate import Gate
from lastcall.drain.kubernetes.notes_gpus import GpuNotes
from lastcall.drain.kubernetes.notes_queue import Importance, Note, NoteQueue
from lastcall.drain.kubernetes.notes_text import Said
from lastcall.drain.kubernetes.reply import Outcome, Reply

QUEUE_LIMIT = 1024
"""Events that wait at most; a node has a few hundred pods."""

WRITERS = 4
"""Calls at a time: what empties the node comes first."""

CALL_SECONDS = 3.0
"""How long one attempt to write an event may take."""

PAUSES_SECONDS = (1.0, 2.0)
"""Before the second attempt and the third, which is the last."""

LONGEST_PAUSE_SECONDS = 5.0
"""A server that asks for more time is not asked again later than this."""

GATHER_SECONDS = 1.0
"""Ranks that save together are done within about this time of each other."""

CLOSE_SECONDS = 1.0
"""How long the agent's end waits for what is left."""

_KNOWN_NOTICES = 64
_GPU_SOURCE = "gpu"
_AGAIN = {Outcome.UNKNOWN, Outcome.THROTTLED, Outcome.UNAUTHORIZED}
# CONFLICT: an event of that name is there, so it has been said before. In a namespace that is
# going or gone nobody reads events.
_FINE = {Outcome.OK, Outcome.CONFLICT, Outcome.NAMESPACE_TERMINATING, Outcome.GONE}

_NO_END = {"none", "stopped"}
"""Outcomes of a drain that leave nothing to say: it moved nothing, or was broken off."""


@dataclass(slots=True)
class _Known:
    """What is remembered of a notice.

    Attributes:
        view: as it was last seen.
        clients: how many processes were told of it; ``None`` where that was before a restart.
        settled: flushes that are over.
        is_told: ``False`` where it is certain that nobody has been told.
        told_kind: its kind, as events have said it; ``None`` where that was before a restart.
        overdue: who was said not to have saved by the deadline.
    """

    view: NoticeView
    clients: int | None = None
    settled: int = 0
    is_told: bool = True
    told_kind: Kind | None = None
    overdue: frozenset[str] = frozenset()


class EventWriter:
    """Writes Events about the node, and about those of its pods that something befalls.

    What is said depends on facts alone, and so do the events' names: an agent that starts again and
    says something once more finds it there. Each pod has at most one event of being moved. What
    came of flushes is gathered: a pod has one event for all its ranks that end within a second, the
    node one once all who were told are done, or their time is up. Who has not saved by the deadline
    is named then, since a machine may go before anything more is known of them.

    The first event of a notice waits a moment for the cordon, which is to be the first call. What
    is said of a GPU waits for a notice of it, whose event then says both.

    Args:
        api: the API server; whoever made it closes it, after this.
        instance: who says all this, such as the agent's pod.
        node: returns the node the agent is on.
        pod: returns the pod of a control group's path or of ``NAMESPACE/NAME``, if it is known.
        refusal: returns why nothing may be done in the cluster: then events are dropped. Empty
            where something may; while it is not known, ``None``, they are held.
        wall: returns Unix seconds.
    """

    def __init__(
        self,
        *,
        api: KubeApi,
        instance: str,
        node: Callable[[], ObjectRef],
        pod: Callable[[str], ObjectRef | None],
        refusal: Callable[[], str | None],
        wall: Callable[[], float],
    ) -> None:
        self._api = api
        self._instance = instance
        self._node = node
        self._pod = pod
        self._wall = wall
        self._gate = Gate(refusal)
        self._clients = KnownClients()
        self._queue = NoteQueue(QUEUE_LIMIT)
        self._gathering = FlushGathering(self._put_flushes)
        self._gpus = GpuNotes(self._put_gpu, wall)
        self._known: dict[str, _Known] = {}
        self._complained: set[str] = set()
        self._unwritten = 0
        self._log = structlog.get_logger()

    def note(self, fact: Fact) -> None:
        """Have written what a fact tells, if it tells something; on the loop, without waiting."""
        match fact:
            case ClientCame() | ClientWent():
                self._clients.note(fact)
            case NoticeSeen():
                self._know(fact.notice).is_told = False
            case NoticeChanged():
                self._changed(fact)
            case NoticeTold():
                self._told(fact)
            case Cordoned():
                self._gate.cordon_tried()
            case FlushSettled():
                self._flush_settled(fact)
            case FlushOverdue():
                self._overdue(fact)
            case PodMoved(outcome="evicted" | "forced"):
                self._moved(fact)
            case NodeDrained():
                self._drained(fact)
            case NoticeEnded():
                self._ended(fact)
            case GpuHealth():
                self._gpus.note(fact)

    async def run(self) -> None:
        """Write what there is to write, until cancelled."""
        async with asyncio.TaskGroup() as writers:
            for _ in range(WRITERS):
                writers.create_task(self._write_on())

    async def close(self) -> None:
        """Write what is left, as far as that goes within a second; after ``run`` has ended."""
        self._gathering.release()
        self._gpus.release()
        if self._gate.refuses:
            self._queue.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS), asyncio.TaskGroup() as writers:
                for _ in range(WRITERS):
                    writers.create_task(self._write_rest())
        self._unwritten += len(self._queue)
        if self._unwritten:
            self._log.warning("kubernetes_events_not_written", events=self._unwritten)

    def _told(self, fact: NoticeTold) -> None:
        known = self._know(fact.notice)
        known.is_told, known.clients = True, fact.clients
        if fact.notice.drains:
            self._gate.hold()
        said = texts.told(fact.notice, fact.clients, self._deadline_unix(fact.notice))
        if _GPU_SOURCE in fact.notice.sources and not fact.notice.drill:
            said = self._gpus.take(said)
        self._put_kind(known, said)

    def _changed(self, fact: NoticeChanged) -> None:
        known = self._know(fact.notice)
        if fact.notice.told and known.told_kind is not fact.notice.kind:
            deadline_unix = self._deadline_unix(fact.notice)
            self._put_kind(known, texts.changed(fact.notice, known.told_kind, deadline_unix))

    def _put_kind(self, known: _Known, said: Said) -> None:
        """Have it said of what kind a notice is: once for each kind, also over a restart."""
        known.told_kind = known.view.kind
        self._put(known.view.id, self._own_node(), said, Importance.NODE, known.view.kind)

    def _flush_settled(self, fact: FlushSettled) -> None:
        known = self._know(fact.notice)
        known.settled += 1
        now = asyncio.get_running_loop().time()
        soon = now + GATHER_SECONDS
        reason = texts.FLUSH_REASONS.get(fact.outcome)
        if reason is not None:
            until = max(soon, fact.notice.flush_until or soon)
            if fact.outcome != "missed" or fact.client not in known.overdue:
                self._gathering.add(self._own_node(), reason, fact, until)
            pod = self._pod(fact.cgroup) if fact.cgroup else None
            if pod is not None:
                self._gathering.add(pod, reason, fact, soon)
        if known.clients is not None and known.settled >= known.clients:
            self._gathering.hasten(fact.notice.id, soon)

    def _overdue(self, fact: FlushOverdue) -> None:
        known = self._know(fact.notice)
        known.overdue |= frozenset(fact.clients)
        said = texts.overdue(fact.notice, self._clients.by_job(fact.clients))
        names = sorted(fact.clients)
        self._put(fact.notice.id, self._own_node(), said, Importance.NODE, "overdue", *names)

    def _put_flushes(self, about: ObjectRef, reason: str, facts: list[FlushSettled]) -> None:
        importance = Importance.NODE if about.kind == "Node" else Importance.POD_FLUSHED
        told_of = sorted(f"{fact.client} {fact.outcome}" for fact in facts)
        self._put(facts[0].notice.id, about, texts.flushed(reason, facts), importance, *told_of)

    def _put_gpu(self, gpu: str, said: Said, words: tuple[str, ...]) -> None:
        self._put(gpu or "gpus", self._own_node(), said, Importance.NODE, *words)

    def _moved(self, fact: PodMoved) -> None:
        namespace, _, name = fact.pod.partition("/")
        if not name:
            return
        uid = fact.uid
        if not uid and (pod := self._pod(fact.pod)) is not None:
            uid = pod.uid
        known = self._known.get(fact.id)
        view = known.view if known else None
        said = texts.moved(fact, view, self._deadline_unix(view))
        about = ObjectRef("Pod", name, namespace, uid)
        self._put(fact.id, about, said, Importance.POD_MOVED, fact.outcome)

    def _drained(self, fact: NodeDrained) -> None:
        self._gathering.release(fact.id)
        if fact.outcome not in _NO_END:
            known = self._known.get(fact.id)
            said = texts.drained(fact, known.view if known else None)
            self._put(fact.id, self._own_node(), said, Importance.NODE, fact.outcome)

    def _ended(self, fact: NoticeEnded) -> None:
        self._gathering.release(fact.notice.id)
        is_told = self._know(fact.notice).is_told
        if is_told and fact.ending in {"withdrawn", "completed"}:
            said = texts.withdrawn(fact)
            self._put(fact.notice.id, self._own_node(), said, Importance.NODE, fact.ending)

    def _know(self, view: NoticeView) -> _Known:
        known = self._known.pop(view.id, None) or _Known(view)
        known.view = view
        # Put back at the end: whoever was not heard of for longest is forgotten first.
        self._known[view.id] = known
        if len(self._known) > _KNOWN_NOTICES:
            del self._known[next(iter(self._known))]
        return known

    def _own_node(self) -> ObjectRef:
        """Return the node; while its UID is not known, its name stands for that.

        ``kubectl describe node`` shows events with either, and none without (kubernetes/kubectl
        issue 1838).
        """
        node = self._node()
        return node if node.uid else replace(node, uid=node.name)

    def _deadline_unix(self, view: NoticeView | None) -> float | None:
        if view is None or view.deadline is None:
            return None
        if view.deadline_unix is not None:
            return view.deadline_unix
        return self._wall() + view.deadline - asyncio.get_running_loop().time()

    def _put(
        self, notice_id: str, about: ObjectRef, said: Said, importance: Importance, *facts: str
    ) -> None:
        text = EventText(
            name=texts.event_name(notice_id, said.reason, about, *facts),
            reason=said.reason,
            message=texts.fitting(said.message),
            action=said.action,
            is_warning=said.is_warning,
            at_unix=self._wall(),
            instance=self._instance,
        )
        self._enqueue(Note(about, text, importance))

    def _enqueue(self, note: Note) -> None:
        if self._queue.put(note) is not None:
            self._unwritten += 1
            self._complain("dropped", f"more than {QUEUE_LIMIT} wait")

    async def _write_on(self) -> None:
        while True:
            await self._queue.filled()
            await self._gate.passed()
            if self._gate.refuses:
                self._queue.clear()
            elif (note := self._queue.pop()) is not None:
                await self._see_to(note, self._write)

    async def _write_rest(self) -> None:
        while not self._gate.is_unknown and (note := self._queue.pop()) is not None:
            await self._see_to(note, self._try)

    async def _see_to(self, note: Note, write: Callable[[Note], Awaitable[Reply]]) -> None:
        try:
            self._settle(await write(note))
        except asyncio.CancelledError:
            # It may have been written; its name keeps it from standing there twice.
            self._enqueue(note)
            raise

    async def _write(self, note: Note) -> Reply:
        for pause_seconds in PAUSES_SECONDS:
            reply = await self._try(note)
            if reply.outcome not in _AGAIN:
                return reply
            asked_seconds = reply.retry_after_seconds or pause_seconds
            await asyncio.sleep(min(asked_seconds, LONGEST_PAUSE_SECONDS))
        return await self._try(note)

    async def _try(self, note: Note) -> Reply:
        return await self._api.create_event(note.about, note.text, timeout_seconds=CALL_SECONDS)

    def _settle(self, reply: Reply) -> None:
        """Take in what came of a note.

        A missing right is said once for good: in other namespaces it may be there.
        """
        if reply.outcome in _FINE:
            self._complained &= {Outcome.FORBIDDEN}
            return
        self._unwritten += 1
        self._complain(reply.outcome, reply.cause_text)

    def _complain(self, why: str, detail: str) -> None:
        """Say once, until an event is written again, what kind of trouble there is."""
        if why not in self._complained:
            self._complained.add(why)
            self._log.warning("kubernetes_event_not_written", why=why, detail=detail)
