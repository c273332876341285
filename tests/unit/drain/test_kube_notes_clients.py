"""Which job and rank a process is, by what has been heard of it."""

from __future__ import annotations

from lastcall.core.facts import ClientWent
from lastcall.drain.kubernetes import notes_clients as kube_notes_clients
from lastcall.drain.kubernetes.notes_clients import KnownClients
from support.kube_notes import came


def went(rank, how):
    return ClientWent(f"client-{rank}", "llama", rank, how, "")


def test_processes_are_listed_by_job():
    known = KnownClients()
    for fact in (came(0), came(1), came(5, job="bert")):
        known.note(fact)

    assert known.by_job(["client-0", "client-1", "client-5", "client-9"]) == {
        "llama": [0, 1],
        "bert": [5],
        "": [None],
    }


def test_a_process_that_ended_is_forgotten_one_that_lost_its_connection_is_not():
    known = KnownClients()
    for rank, how in enumerate(("bye", "died", "lost")):
        known.note(came(rank))
        known.note(went(rank, how))

    assert known.by_job(["client-0", "client-1", "client-2"]) == {"": [None, None], "llama": [2]}


def test_no_more_than_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(kube_notes_clients, "KNOWN_CLIENTS", 2)
    known = KnownClients()
    for rank in range(3):
        known.note(came(rank))

    assert known.by_job(["client-0", "client-2"]) == {"": [None], "llama": [2]}
