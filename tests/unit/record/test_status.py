"""The status shows what the agent knows, in plain data whose keys stay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastcall.core.estimates import JobAdvice, JobHistory
from lastcall.core.model import (
    Action,
    Claim,
    Client,
    Flush,
    Kind,
    Node,
    Notice,
    Outcome,
    Phase,
    Response,
    Sighting,
    SourceHealth,
    Stance,
)
from lastcall.record.status import SHOWN_ENDED, status

NOW = 1000.0
BOOTED_UNIX = 1700000000.0
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "status.md"

SIGHTING = Sighting(
    source="aws",
    scope="instance-action",
    key="terminate",
    kind=Kind.PREEMPTION,
    action=Action.TERMINATE,
    deadline=1100.0,
    deadline_unix=BOOTED_UNIX + 1101.5,
    reason="spot",
)
NOTICE = Notice(
    id="n1",
    phase=Phase.FLUSHING,
    first_seen=980.0,
    told_at=980.5,
    claims=(Claim(SIGHTING, Response(Stance.FLUSH, drain=True), 980.0),),
    flushes={
        "c0": Flush(
            "c0",
            "llama",
            rank=0,
            told_at=980.5,
            acked_at=980.75,
            outcome=Outcome.IN_TIME,
            settled_at=995.5,
        ),
        "c1": Flush("c1", "llama", told_at=980.5, begun_at=981.5, phase="write"),
    },
)
C0 = Client(
    key="c0",
    identity="40@1",
    session="s0",
    job="llama",
    joined_at=100.0,
    heard_at=999.0,
    rank=0,
    pid=40,
    step=7,
)
C1 = replace(C0, key="c1", session=None, rank=1, pid=41, left_at=990.0)
NODE = Node(
    notices={"n1": NOTICE},
    clients={"c0": C0, "c1": C1},
    sources={
        "aws": SourceHealth({"events": "throttled"}, "throttled", 940.0, 0.25),
        "gcp": SourceHealth(result="ok"),
    },
    jobs={"llama": JobHistory((0.5,), (9.0,), 995.5, 6, "/ckpt/6")},
    providers=("aws",),
    provider_detail="configured",
    identity={"instance_type": "p5"},
    interruptions=1,
    cordoned_for="n1",
    cordoned_at=990.0,
)


def shown(node: Node = NODE, **kwargs: Any) -> dict[str, Any]:
    return status(
        node, now=NOW, wall=BOOTED_UNIX + NOW, agent={"version": "1.2.3", "mode": "act"}, **kwargs
    )


def keys_of(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys_of(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(keys_of(item) for item in value))
    return set()


def test_it_is_plain_json() -> None:
    assert json.loads(json.dumps(shown(), allow_nan=False)) == shown()


def test_a_node_that_knows_nothing_has_the_same_sections() -> None:
    assert shown(Node()).keys() == shown().keys()
    assert shown(Node())["summary"] == {
        "phase": "quiet",
        "notices_open": 0,
        "notices_ended": 0,
        "remaining_seconds": None,
        "flushes_open": 0,
        "clients_connected": 0,
        "clients_away": 0,
        "jobs": 0,
        "sources_up": 0,
        "sources_down": 0,
        "interruptions": 0,
    }


def test_the_agent_says_of_itself_what_it_is_given() -> None:
    assert shown()["agent"] == {"version": "1.2.3", "mode": "act"}


def test_the_summary_counts() -> None:
    assert shown()["summary"] == {
        "phase": "flushing",
        "notices_open": 1,
        "notices_ended": 0,
        "remaining_seconds": 100.0,
        "flushes_open": 1,
        "clients_connected": 1,
        "clients_away": 1,
        "jobs": 1,
        "sources_up": 1,
        "sources_down": 1,
        "interruptions": 1,
    }


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ([Phase.SEEN], "seen"),
        ([Phase.SEEN, Phase.TOLD], "told"),
        ([Phase.FLUSHING, Phase.DRAINING, Phase.TOLD], "draining"),
    ],
)
def test_the_most_advanced_notice_names_the_phase(phases: list[Phase], phase: str) -> None:
    notices = {str(n): replace(NOTICE, id=str(n), phase=p) for n, p in enumerate(phases)}

    assert shown(Node(notices=notices))["summary"]["phase"] == phase


def test_a_source_shows_its_trouble_and_its_age() -> None:
    aws, gcp = shown()["sources"]

    assert aws == {
        "source": "aws",
        "up": False,
        "result": "throttled",
        "troubles": {"events": "throttled"},
        "last_success_age_seconds": 60.0,
        "last_success_unix": BOOTED_UNIX + 940,
        "clock_skew_seconds": 0.25,
    }
    assert gcp["up"]
    assert gcp["last_success_age_seconds"] is None


def test_an_open_notice_shows_what_time_is_left() -> None:
    (notice,) = shown(reserve_seconds=10.0)["notices"]

    assert notice["open"]
    assert notice["ending"] == ""
    assert notice["remaining_seconds"] == 100.0
    assert notice["budget_seconds"] == 90.0
    assert notice["lead_seconds"] == 120.0
    assert notice["deadline_unix"] == BOOTED_UNIX + 1101.5
    assert notice["first_seen_unix"] == BOOTED_UNIX + 980


def test_a_deadline_that_is_past_leaves_nothing() -> None:
    claim = replace(NOTICE.claims[0], sighting=replace(SIGHTING, deadline=990.0))
    (notice,) = shown(Node(notices={"n1": replace(NOTICE, claims=(claim,))}))["notices"]

    assert notice["remaining_seconds"] == 0.0


def test_a_notice_without_a_deadline_leaves_that_open() -> None:
    sighting = replace(SIGHTING, deadline=None, deadline_unix=None)
    claim = replace(NOTICE.claims[0], sighting=sighting)
    (notice,) = shown(Node(notices={"n1": replace(NOTICE, claims=(claim,))}))["notices"]

    assert notice["deadline_quality"] == "none"
    assert (notice["deadline_unix"], notice["remaining_seconds"]) == (None, None)


def test_a_flush_shows_its_outcome_and_its_times() -> None:
    first, second = shown()["notices"][0]["flushes"]

    assert (first["client"], first["rank"], first["outcome"]) == ("c0", 0, "in_time")
    assert first["acked_after_seconds"] == 0.25
    assert first["settled_after_seconds"] == 15.0
    assert first["margin_seconds"] == 104.5
    assert (second["outcome"], second["phase"], second["begun_after_seconds"]) == (
        None,
        "write",
        1.0,
    )


def test_open_notices_come_first_then_the_latest_that_ended() -> None:
    ended = [
        replace(NOTICE, id=f"old{number}", ended_at=float(number), ending="passed")
        for number in range(SHOWN_ENDED + 5)
    ]
    node = Node(notices={item.id: item for item in (*ended, NOTICE)})

    notices = shown(node)["notices"]

    assert [item["id"] for item in notices[:2]] == ["n1", f"old{SHOWN_ENDED + 4}"]
    assert len(notices) == 1 + SHOWN_ENDED
    assert notices[1]["ending"] == "passed"
    assert notices[1]["remaining_seconds"] is None


def test_a_client_shows_what_would_be_lost_now() -> None:
    c0, c1 = shown()["clients"]

    assert (c0["connected"], c0["away_seconds"]) == (True, None)
    assert c0["heard_age_seconds"] == 1.0
    assert c0["checkpoint_age_seconds"] == c0["unsaved_seconds"] == 4.5
    assert (c1["connected"], c1["away_seconds"]) == (False, 10.0)


def test_without_any_checkpoint_all_since_joining_would_be_lost() -> None:
    (client,) = shown(Node(clients={"c0": C0}))["clients"]

    assert client["checkpoint_age_seconds"] is None
    assert client["unsaved_seconds"] == 900.0


def test_a_job_shows_its_advice() -> None:
    (job,) = shown(advice=lambda _, __: JobAdvice(600.0, "tight", 9.0))["jobs"]

    assert job == {
        "job": "llama",
        "clients": 2,
        "checkpoint_age_seconds": 4.5,
        "checkpoint_unix": BOOTED_UNIX + 995.5,
        "checkpoint_step": 6,
        "checkpoint_path": "/ckpt/6",
        "unsaved_seconds": 4.5,
        "checkpoint_interval_seconds": 600.0,
        "flush_fits": "tight",
        "predicted_flush_seconds": 9.0,
    }


def test_a_job_of_the_past_has_nothing_to_lose() -> None:
    (job,) = shown(Node(jobs={"llama": JobHistory(last_at=1.0)}))["jobs"]

    assert (job["clients"], job["unsaved_seconds"], job["flush_fits"]) == (0, None, "unknown")


def test_the_cordon_names_its_notice() -> None:
    assert shown(drain={"api": "up"})["drain"] == {
        "cordoned": True,
        "cordoned_for": "n1",
        "cordoned_unix": BOOTED_UNIX + 990,
        "giving_back": False,
        "api": "up",
    }


def test_every_key_is_described_in_the_reference() -> None:
    page = PAGE.read_text()
    free = {"instance_type", "events", "version", "mode"}

    assert {key for key in keys_of(shown()) - free if f"`{key}`" not in page} == set()
