"""Announcements by a file, an address and a known end, from there to a training process."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

from support.needs import long
from support.raw_http import http_answer, raw_server
from support.running_agent import LineClient, RunningAgent

NO_CLOUD = "notices.provider=none"
LEAD_SECONDS = 120.0
SOON_SECONDS = 2.0


def written(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).isoformat()


def is_told_in_time(notice, source, kind="preemption", lead_seconds=LEAD_SECONDS):
    return (
        (notice["source"], notice["kind"], notice["urgency"]) == (source, kind, "now")
        and notice["deadline_quality"] == "provider"
        and lead_seconds - SOON_SECONDS < notice["remaining_seconds"] <= lead_seconds
    )


async def test_a_file_that_appears_is_told_and_its_removal_calls_it_off(tmp_path):
    path = tmp_path / "MITHRIL_SIGNAL.yml"
    settings = (NO_CLOUD, f"notices.file.path={path}", "notices.file.poll_seconds=0.05")
    async with (
        RunningAgent(tmp_path, *settings) as agent,
        LineClient.connected(agent.socket_path, {"job": "train"}) as rank,
    ):
        assert (await rank.receive("welcome"))["notices"] == []

        ends_at = written(time.time() + LEAD_SECONDS)
        path.write_text(f"instance_status: STATUS_PREEMPTING\nend_time: {ends_at}\n")
        notice = await rank.receive("notice")
        assert is_told_in_time(notice, "file")
        assert notice["cancellable"]

        path.unlink()
        assert (await rank.receive("withdrawn"))["id"] == notice["id"]

        path.touch()
        again = await rank.receive("notice")
        assert (again["deadline_quality"], again["remaining_seconds"] <= 30) == ("assumed", True)


async def test_a_notice_by_file_is_the_same_one_after_a_restart(tmp_path):
    path = tmp_path / "notice.json"
    settings = (NO_CLOUD, f"notices.file.path={path}", "notices.file.poll_seconds=0.05")
    path.write_text('{"lead_seconds": 120, "kind": "termination"}')
    async with RunningAgent(tmp_path, *settings) as agent:
        before = await agent.wait_view(lambda view: view["notices"])
        await agent.end(9)
        await agent.start()
        async with LineClient.connected(agent.socket_path, {"job": "train"}) as rank:
            (notice,) = (await rank.receive("welcome"))["notices"]

    assert notice["id"] == before["notices"][0]["id"]
    assert 90 < notice["remaining_seconds"] < LEAD_SECONDS


async def test_a_time_at_an_address_is_told_and_called_off_after_three_looks(tmp_path):
    answers = {"now": http_answer(b"", "404 Not Found")}
    async with raw_server(lambda _: answers["now"]) as server:
        settings = (
            NO_CLOUD,
            f"notices.url.url={server.url}/end",
            "notices.url.kind=termination",
            "notices.url.poll_seconds=0.05",
        )
        async with (
            RunningAgent(tmp_path, *settings) as agent,
            LineClient.connected(agent.socket_path, {"job": "train"}) as rank,
        ):
            await rank.receive("welcome")
            answers["now"] = http_answer(written(time.time() + LEAD_SECONDS).encode())
            assert is_told_in_time(await rank.receive("notice"), "url", "termination")

            answers["now"] = http_answer(b"", "503 Service Unavailable")
            await agent.wait_view(lambda view: not _source(view, "url")["up"])
            answers["now"] = http_answer(b"", "404 Not Found")
            await rank.receive("withdrawn")
            counted = 'lastcall_notices_withdrawn_total{kind="termination",source="url"}'
            assert await agent.metric(counted) == 1


def _source(view, name):
    return next(one for one in view["sources"] if one["source"] == name)


@pytest.mark.long
async def test_a_known_end_is_told_its_lead_time_before(tmp_path):
    began_at = time.time()
    ends_at = began_at + 60
    settings = (
        NO_CLOUD,
        f"notices.schedule.ends_at={written(ends_at)}",
        "notices.schedule.lead_seconds=57.0",
    )
    async with (
        RunningAgent(tmp_path, *settings) as agent,
        LineClient.connected(agent.socket_path, {"job": "train"}) as rank,
    ):
        notices = (await rank.receive("welcome"))["notices"]
        notice = notices[0] if notices else await rank.receive("notice")

        assert time.time() >= ends_at - 57.1
        assert is_told_in_time(notice, "schedule", "termination", 57.0)


@pytest.mark.parametrize("cloud", ["auto", long("none")])
async def test_all_run_beside_each_other_whatever_the_cloud(tmp_path, cloud):
    settings = (
        f"notices.provider={cloud}",
        *(f"notices.{name}.endpoint=http://127.0.0.1:9" for name in ("aws", "gcp", "azure")),
        f"notices.file.path={tmp_path}/notice",
        "notices.url.url=http://127.0.0.1:9/end",
        "notices.schedule.ends_at=2099-01-01T00:00:00Z",
    )
    agent = RunningAgent(tmp_path, *settings)
    await agent.begin()
    try:
        await agent.wait(lambda: len(agent.logged("source_answered")) >= 3)
        view = await agent.wait_view(lambda view: len(view["sources"]) >= 3)
        up = {one["source"]: one["up"] for one in view["sources"]}
        assert up == {"file": True, "url": False, "schedule": True}
    finally:
        ended = await asyncio.wait_for(agent.end(15), 10)
    assert ended == 0
    assert not any("Traceback" in line for line in agent.other_lines)
