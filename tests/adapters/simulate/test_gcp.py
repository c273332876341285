"""Google's metadata server: values, directories, tags, and the wait for a change."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from lastcall.simulate.gcp import MAINTENANCE_EVENT, PREEMPTED, UPCOMING, UPCOMING_IDLE, GcpMetadata
from lastcall.simulate.server import serve

NOW = 1_935_520_000.0  # 2031-05-02T20:26:40Z
FLAVOR = {"Metadata-Flavor": "Google"}
WAIT = {"wait_for_change": "true"}


@pytest.fixture
def gcp() -> GcpMetadata:
    return GcpMetadata(clock=lambda: NOW)


@pytest.fixture
async def url(gcp: GcpMetadata) -> AsyncIterator[str]:
    async with serve(gcp) as base:
        yield f"{base}/computeMetadata/v1/"


class Answer:
    def __init__(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        self.status = status
        self.text = text
        self.headers = headers
        self.etag = headers.get("ETag")


class Reader:
    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url

    async def get(self, path: str, **query: str) -> Answer:
        async with self.http.get(self.url + path, params=query, headers=FLAVOR) as answer:
            return Answer(answer.status, await answer.text(), answer.headers)

    async def watch(self, path: str, **query: str) -> Answer:
        return await self.get(path, wait_for_change="true", **query)


@pytest.fixture
def reader(http: aiohttp.ClientSession, url: str) -> Reader:
    return Reader(http, url)


# --- who is let through ----------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, {"Metadata-Flavor": "google"}, {"Metadata": "true"}])
async def test_a_request_without_the_flavor_is_refused(http, url, headers):
    async with http.get(url + PREEMPTED, headers=headers) as answer:
        assert answer.status == 403
        assert answer.headers["Metadata-Flavor"] == "Google"
        assert "ETag" not in answer.headers


async def test_a_proxy_is_refused(http, url):
    headers = FLAVOR | {"X-Forwarded-For": "192.0.2.1"}
    async with http.get(url + PREEMPTED, headers=headers) as answer:
        assert answer.status == 403


async def test_another_verb_is_405(http, url):
    async with http.post(url + PREEMPTED, headers=FLAVOR) as answer:
        assert answer.status == 405


async def test_the_root_tells_the_flavor_to_anybody(http, url):
    async with http.get(url.removesuffix("computeMetadata/v1/")) as answer:
        assert answer.status == 200
        assert answer.headers["Metadata-Flavor"] == "Google"
        assert await answer.text() == "computeMetadata/\n"


async def test_each_answer_has_the_headers_of_the_real_one(reader):
    answer = await reader.get(PREEMPTED)

    assert answer.headers["Metadata-Flavor"] == "Google"
    assert answer.headers["Server"] == "Metadata Server for VM"
    assert answer.headers["Content-Type"] == "application/text"
    assert answer.headers["Date"] == "Fri, 02 May 2031 20:26:40 GMT"
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert len(answer.etag) == 16


# --- values and directories ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PREEMPTED, "FALSE"),
        (MAINTENANCE_EVENT, "NONE"),
        ("instance/name", "rehearsal-1"),
        ("instance/hostname", "rehearsal-1.c.rehearsal-project.internal"),
        ("instance/id", "1000000000000000001"),
        ("instance/zone", "projects/100000000001/zones/xx-rehearsal1-a"),
        ("instance/machine-type", "projects/100000000001/machineTypes/a3-highgpu-8g"),
        ("instance/scheduling/preemptible", "TRUE"),
        ("instance/scheduling/on-host-maintenance", "TERMINATE"),
        ("project/project-id", "rehearsal-project"),
    ],
)
async def test_a_value_is_plain_text(reader, path, text):
    answer = await reader.get(path)
    assert (answer.status, answer.text) == (200, text)
    assert (await reader.get(path, alt="text")).text == text


async def test_a_value_as_json_is_a_json_string(reader):
    answer = await reader.get(PREEMPTED, alt="json")

    assert answer.text == '"FALSE"'
    assert answer.headers["Content-Type"] == "application/json"
    assert (await reader.get("instance/id", alt="json")).text == "1000000000000000001"


async def test_a_directory_is_a_listing(reader):
    assert (await reader.get("")).text == "instance/\nproject/\n"
    names = (await reader.get("instance/")).text.splitlines()
    assert names == sorted(names)
    assert {"scheduling/", "preempted", "attributes/"} <= set(names)
    assert (await reader.get("instance/scheduling/")).text == (
        "automatic-restart\non-host-maintenance\npreemptible\n"
    )


async def test_a_directory_read_recursively_is_json_in_camel_case(reader):
    answer = await reader.get("instance/", recursive="true")

    content = json.loads(answer.text)
    assert answer.headers["Content-Type"] == "application/json"
    assert content["maintenanceEvent"] == "NONE"
    assert content["scheduling"]["onHostMaintenance"] == "TERMINATE"
    assert content["attributes"] == {"cluster-name": "rehearsal"}
    assert content["id"] == 1000000000000000001


async def test_the_whole_tree_can_be_read_at_once(reader):
    content = json.loads((await reader.get("", recursive="true")).text)

    assert content["instance"]["preempted"] == "FALSE"
    assert content["project"]["projectId"] == "rehearsal-project"


async def test_a_directory_read_recursively_as_text_is_lines(reader):
    answer = await reader.get("instance/scheduling/", recursive="true", alt="text")

    assert "on-host-maintenance TERMINATE\n" in answer.text


@pytest.mark.parametrize("path", ["instance/preempted/", "instance/nothing", "nothing/", "../x"])
async def test_an_unknown_path_is_404(reader, path):
    assert (await reader.get(path)).status == 404


async def test_a_path_outside_the_version_is_404(http, url):
    async with http.get(url.replace("v1/", "v2/instance/id"), headers=FLAVOR) as answer:
        assert answer.status == 404


@pytest.mark.parametrize("path", ["instance/", "instance", ""])
@pytest.mark.parametrize("query", [{"alt": "json"}, WAIT, {"wait_for_change": "1"}])
async def test_a_listing_takes_neither_form_nor_wait(reader, path, query):
    assert (await reader.get(path, **query)).status == 400


async def test_unknown_parameters_are_ignored(reader):
    assert (await reader.get(PREEMPTED, colour="blue")).text == "FALSE"


# --- tags and waits --------------------------------------------------------------------------


async def test_a_tag_follows_the_content(gcp, reader):
    before = (await reader.get(PREEMPTED)).etag
    gcp.set(PREEMPTED, "TRUE")
    noticed = (await reader.get(PREEMPTED)).etag
    gcp.set(PREEMPTED, "FALSE")

    assert noticed != before
    assert (await reader.get(PREEMPTED)).etag == before
    assert (await reader.get(PREEMPTED, recursive="true")).etag != before


async def test_a_wait_with_an_old_tag_is_answered_at_once(reader):
    answer = await reader.watch(PREEMPTED, last_etag="NONE", timeout_sec="60")

    assert (answer.status, answer.text) == (200, "FALSE")


async def test_a_wait_that_ends_unchanged_is_200_with_the_same_tag(reader):
    etag = (await reader.get(PREEMPTED)).etag

    began = time.monotonic()
    answer = await reader.watch(PREEMPTED, last_etag=etag, timeout_sec="1")

    assert time.monotonic() - began >= 0.9
    assert (answer.status, answer.text, answer.etag) == (200, "FALSE", etag)


async def test_a_change_wakes_all_who_wait(gcp, reader, until):
    etag = (await reader.get(PREEMPTED)).etag
    watchers = [
        asyncio.create_task(reader.watch(PREEMPTED, last_etag=etag, timeout_sec="60"))
        for _ in range(5)
    ]
    await until(lambda: gcp.waiting == 5)

    gcp.raise_notice("preemption")

    answers = await asyncio.gather(*watchers)
    assert [answer.text for answer in answers] == ["TRUE"] * 5
    assert answers[0].etag != etag
    assert gcp.waiting == 0


async def test_a_wait_without_a_tag_hangs_until_the_next_change(gcp, reader, until):
    gcp.raise_notice("preemption")
    watcher = asyncio.create_task(reader.watch(PREEMPTED))
    await until(lambda: gcp.waiting == 1)

    gcp.set(PREEMPTED, "FALSE")

    assert (await watcher).text == "FALSE"


async def test_a_change_and_back_still_wakes(gcp, reader, until):
    etag = (await reader.get(PREEMPTED)).etag
    watcher = asyncio.create_task(reader.watch(PREEMPTED, last_etag=etag))
    await until(lambda: gcp.waiting == 1)

    gcp.set(PREEMPTED, "TRUE")
    gcp.set(PREEMPTED, "FALSE")

    assert (await watcher).etag == etag


async def test_a_change_elsewhere_does_not_wake(gcp, reader, until):
    watcher = asyncio.create_task(reader.watch(PREEMPTED))
    await until(lambda: gcp.waiting == 1)

    gcp.set(MAINTENANCE_EVENT, "MIGRATE_ON_HOST_MAINTENANCE")
    await asyncio.sleep(0.02)
    assert not watcher.done()

    gcp.set(PREEMPTED, "TRUE")
    assert (await watcher).text == "TRUE"


@pytest.mark.parametrize("path", ["", "instance/", "instance"])
async def test_a_recursive_wait_wakes_on_any_change_below(gcp, reader, path, until):
    etag = (await reader.get(path, recursive="true")).etag
    watcher = asyncio.create_task(reader.watch(path, recursive="true", last_etag=etag))
    await until(lambda: gcp.waiting == 1)

    gcp.set(MAINTENANCE_EVENT, "TERMINATE_ON_HOST_MAINTENANCE")

    assert "TERMINATE_ON_HOST_MAINTENANCE" in (await watcher).text


async def test_a_client_that_leaves_waits_no_more_and_is_noted(gcp, reader, until):
    watcher = asyncio.create_task(reader.watch(PREEMPTED))
    await until(lambda: gcp.waiting == 1)

    watcher.cancel()
    await until(lambda: gcp.waiting == 0)

    assert gcp.log.recent[-1].abandoned
    assert gcp.log.open == 0


async def test_a_value_taken_away_wakes_with_404(gcp, reader, until):
    watcher = asyncio.create_task(reader.watch(PREEMPTED))
    await until(lambda: gcp.waiting == 1)

    gcp.set(PREEMPTED, None)

    assert (await watcher).status == 404
    assert gcp.get(PREEMPTED) is None


# --- faults ----------------------------------------------------------------------------------


async def test_a_server_without_tags(gcp, reader):
    gcp.faults.add("no-etag")

    assert (await reader.get(PREEMPTED)).etag is None
    assert (await reader.watch(PREEMPTED, last_etag="NONE")).text == "FALSE"


async def test_a_server_that_ignores_the_wait(gcp, reader):
    gcp.faults.add("no-wait")
    etag = (await reader.get(PREEMPTED)).etag

    answer = await reader.watch(PREEMPTED, last_etag=etag)

    assert (answer.text, answer.etag) == ("FALSE", etag)


async def test_gke_hides_the_notices_from_pods(gcp, reader):
    gcp.faults.add("gke-proxy")

    for name in ("preempted", "maintenance-event", "name", "upcoming-maintenance"):
        assert (await reader.get(f"instance/{name}")).status == 404
    assert (await reader.get("instance/")).text == "attributes/\nhostname\nid\nzone\n"


# --- notices ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("preemption", PREEMPTED, "TRUE"),
        ("preempted", PREEMPTED, "TRUE"),
        ("maintenance", MAINTENANCE_EVENT, "TERMINATE_ON_HOST_MAINTENANCE"),
        ("migrate", MAINTENANCE_EVENT, "MIGRATE_ON_HOST_MAINTENANCE"),
    ],
)
async def test_a_notice_shows_and_is_withdrawn(gcp, reader, kind, path, value):
    idle = (await reader.get(path)).text

    raised = gcp.raise_notice(kind)
    assert (await reader.get(path)).text == value
    assert raised.deadline_unix is None

    gcp.withdraw()
    assert (await reader.get(path)).text == idle


@pytest.mark.parametrize(
    ("idle", "status", "text"),
    [
        ("missing", 404, None),
        ("error", 503, '{"error":"no notifications have been received yet, try again later"}'),
        ("none", 200, "NONE"),
        ("quoted-none", 200, '"NONE"'),
        ("empty", 200, "{}"),
    ],
)
async def test_no_upcoming_maintenance_is_said_in_five_ways(gcp, reader, idle, status, text):
    gcp.upcoming_idle = idle

    answer = await reader.get(UPCOMING, alt="json")

    assert answer.status == status
    assert text in {None, answer.text}


def test_the_ways_to_say_nothing_are_all_tested():
    assert set(UPCOMING_IDLE) == {"missing", "error", "none", "quoted-none", "empty"}


@pytest.mark.parametrize("form", ["snake", "camel", "wrapped"])
async def test_upcoming_maintenance_is_written_in_three_forms(gcp, reader, form):
    gcp.upcoming_form = form

    raised = gcp.raise_notice("upcoming", 3600)

    content = json.loads((await reader.get(UPCOMING, alt="json")).text)
    if form == "wrapped":
        content = content["Upcoming maintenance"]
    start = content["windowStartTime" if form == "camel" else "window_start_time"]
    assert start == "2031-05-02T21:26:40Z"
    assert content["canReschedule" if form == "camel" else "can_reschedule"] == "true"
    assert raised.deadline_unix == NOW + 3600

    gcp.withdraw()
    assert (await reader.get(UPCOMING)).status == 404


async def test_upcoming_maintenance_can_be_waited_for_while_nothing_is_planned(gcp, reader, until):
    gcp.upcoming_idle = "none"
    watcher = asyncio.create_task(reader.watch(UPCOMING, alt="json"))
    await until(lambda: gcp.waiting == 1)

    gcp.raise_notice("upcoming", 3600)

    assert json.loads((await watcher).text)["type"] == "SCHEDULED"


async def test_an_override_replaces_an_answer_for_those_let_through(http, url, gcp, reader):
    gcp.override(f"/computeMetadata/v1/{PREEMPTED}", "\x00maybe")

    assert (await reader.get(PREEMPTED)).text == "\x00maybe"
    async with http.get(url + PREEMPTED) as answer:
        assert answer.status == 403
