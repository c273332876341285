"""Azure's metadata service: scheduled events, their life, and the instance's own data."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from lastcall.simulate.azure import EVENT_VERSIONS, AzureMetadata
from lastcall.simulate.server import serve
from support.metadata_clients import HandClock

NOW = 1_935_520_000.0  # 2031-05-02T20:26:40Z
EVENTS = "/metadata/scheduledevents"
INSTANCE = "/metadata/instance"
HEADER = {"Metadata": "true"}
VERSION = {"api-version": "2020-07-01"}


@pytest.fixture
def azure(clock: HandClock) -> AzureMetadata:
    return AzureMetadata(clock=clock, monotonic=clock)


@pytest.fixture
async def url(azure: AzureMetadata) -> AsyncIterator[str]:
    async with serve(azure) as base:
        yield base


class Reader:
    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url

    async def document(self, version: str = "2020-07-01") -> dict[str, Any]:
        query = {"api-version": version}
        async with self.http.get(self.url + EVENTS, params=query, headers=HEADER) as answer:
            assert answer.status == 200
            content: dict[str, Any] = await answer.json()
            return content

    async def document_text(self) -> str:
        async with self.http.get(self.url + EVENTS, params=VERSION, headers=HEADER) as answer:
            return await answer.text()

    async def events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = (await self.document())["Events"]
        return events

    async def acknowledge(self, body: bytes) -> int:
        async with self.http.post(
            self.url + EVENTS, params=VERSION, headers=HEADER, data=body
        ) as answer:
            return answer.status

    async def instance(self, path: str, version: str = "2021-02-01", **query: str) -> Any:
        query["api-version"] = version
        async with self.http.get(self.url + INSTANCE + path, params=query, headers=HEADER) as got:
            text = await got.text()
            if got.status != 200:
                return got.status
            return json.loads(text) if got.content_type == "application/json" else text


@pytest.fixture
def reader(http: aiohttp.ClientSession, url: str) -> Reader:
    return Reader(http, url)


def request_to_start(*event_ids: str) -> bytes:
    return json.dumps({"StartRequests": [{"EventId": one} for one in event_ids]}).encode()


# --- who is let through ----------------------------------------------------------------------


@pytest.mark.parametrize("path", [EVENTS, INSTANCE, f"{INSTANCE}/compute"])
@pytest.mark.parametrize("headers", [{}, {"Metadata": "false"}, {"Metadata-Flavor": "Google"}])
async def test_a_request_without_the_header_is_refused(http, url, path, headers):
    async with http.get(url + path, params={"api-version": "2017-08-01"}, headers=headers) as got:
        assert got.status == 400
        assert "metadata header" in (await got.json())["error"]


@pytest.mark.parametrize("query", [{}, {"api-version": ""}, {"api-version": "2999-01-01"}])
async def test_a_request_without_a_known_version_is_told_the_newest(http, url, query):
    async with http.get(url + EVENTS, params=query, headers=HEADER) as got:
        content = await got.json()

    assert got.status == 400
    assert "api-version" in content["error"]
    assert content["newest-versions"] == ["2020-07-01", "2019-08-01", "2019-04-01"]


async def test_a_proxy_is_refused(http, url):
    headers = HEADER | {"X-Forwarded-For": "192.0.2.1"}
    async with http.get(url + EVENTS, params=VERSION, headers=headers) as got:
        assert got.status == 400


@pytest.mark.parametrize(("path", "verb"), [(EVENTS, "PUT"), (EVENTS, "HEAD"), (INSTANCE, "POST")])
async def test_another_verb_is_405(http, url, path, verb):
    async with http.request(verb, url + path, params=VERSION, headers=HEADER) as got:
        assert got.status == 405


@pytest.mark.parametrize("path", ["/", "/metadata", "/metadata/other", f"{INSTANCE}s"])
async def test_an_unknown_path_is_404(http, url, path):
    async with http.get(url + path, params=VERSION, headers=HEADER) as got:
        assert got.status == 404


async def test_more_than_five_requests_a_second_are_refused_where_that_is_on(
    http, url, azure, clock, reader
):
    azure.faults.add("rate-limit")
    for _ in range(5):
        await reader.document()

    async with http.get(url + EVENTS, params=VERSION, headers=HEADER) as got:
        assert got.status == 429
    clock.seconds += 1.0

    assert await reader.events() == []


async def test_any_number_of_requests_is_answered_by_default(reader):
    for _ in range(20):
        await reader.document()


# --- the document ----------------------------------------------------------------------------


async def test_an_idle_document_has_no_events(http, url):
    async with http.get(url + EVENTS, params=VERSION, headers=HEADER) as got:
        assert await got.json() == {"DocumentIncarnation": 1, "Events": []}
        assert got.headers["Content-Type"] == "application/json; charset=utf-8"
        assert got.headers["Date"] == "Fri, 02 May 2031 20:26:40 GMT"


async def test_a_preemption_is_a_scheduled_event_of_this_machine(azure, reader):
    raised = azure.raise_notice()

    document = await reader.document()
    assert document["DocumentIncarnation"] == 2
    [event] = document["Events"]
    assert len(event.pop("EventId")) == 36
    assert event == {
        "EventStatus": "Scheduled",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": ["rehearsal_3"],
        "NotBefore": "Fri, 02 May 2031 20:27:10 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    assert raised.deadline_unix == NOW + 30


@pytest.mark.parametrize(
    ("kind", "event_type"),
    [
        ("preemption", "Preempt"),
        ("termination", "Terminate"),
        ("maintenance", "Redeploy"),
        ("preempt", "Preempt"),
        ("terminate", "Terminate"),
        ("reboot", "Reboot"),
        ("redeploy", "Redeploy"),
        ("freeze", "Freeze"),
        ("hardware-failure", "Reboot"),
        ("unknown", "SomethingNew"),
    ],
)
async def test_each_kind_has_its_type(azure, reader, kind, event_type):
    azure.raise_notice(kind, 600)

    [event] = await reader.events()
    assert event["EventType"] == event_type
    assert event["DurationInSeconds"] == (5 if kind == "freeze" else -1)


async def test_an_event_is_scheduled_then_started_then_gone(azure, clock, reader):
    azure.raise_notice("reboot", 900)
    incarnations = [(await reader.document())["DocumentIncarnation"]]

    clock.seconds += 900
    [event] = await reader.events()
    assert (event["EventStatus"], event["NotBefore"]) == ("Started", "")
    incarnations.append((await reader.document())["DocumentIncarnation"])

    clock.seconds += 600
    assert await reader.events() == []
    incarnations.append((await reader.document())["DocumentIncarnation"])
    assert incarnations == [2, 3, 4]


async def test_an_unchanged_document_keeps_its_number(azure, clock, reader):
    azure.raise_notice("reboot", 900)

    first = await reader.document()
    clock.seconds += 10

    assert await reader.document() == first


async def test_a_hardware_failure_has_started_at_first_sight(azure, reader):
    raised = azure.raise_notice("hardware-failure")

    [event] = await reader.events()
    assert (event["EventStatus"], event["NotBefore"]) == ("Started", "")
    assert raised.deadline_unix == NOW


async def test_a_withdrawn_event_just_disappears(azure, reader):
    azure.raise_notice("preempt")
    azure.raise_notice("freeze")

    azure.withdraw()

    assert await reader.document() == {"DocumentIncarnation": 5, "Events": []}


async def test_times_can_be_written_as_the_mock_server_does(azure, reader):
    azure.iso_times = True
    azure.raise_notice("preempt")

    [event] = await reader.events()
    assert event["NotBefore"] == "2031-05-02T20:27:10Z"


async def test_another_clock_shows_in_the_date_and_in_the_times(http, url, azure):
    azure.clock_skew_seconds = 300.0
    raised = azure.raise_notice("preempt")

    async with http.get(url + EVENTS, params=VERSION, headers=HEADER) as got:
        [event] = (await got.json())["Events"]
    assert got.headers["Date"] == "Fri, 02 May 2031 20:31:40 GMT"
    assert event["NotBefore"] == "Fri, 02 May 2031 20:32:10 GMT"
    assert raised.deadline_unix == NOW + 30


async def test_events_of_other_machines_stand_in_the_same_document(azure, reader):
    azure.add_event("Reboot", 900, resources=["rehearsal_4", "rehearsal_5"], source="User")
    azure.raise_notice("preempt")

    foreign, own = await reader.events()
    assert foreign["Resources"] == ["rehearsal_4", "rehearsal_5"]
    assert foreign["EventSource"] == "User"
    assert own["Resources"] == ["rehearsal_3"]


@pytest.mark.parametrize("version", EVENT_VERSIONS)
async def test_fields_and_types_follow_the_version(azure, reader, version):
    for kind in ("preempt", "terminate", "reboot"):
        azure.raise_notice(kind, 900)

    events = {event["EventType"]: event for event in (await reader.document(version))["Events"]}

    assert ("Preempt" in events) == (version >= "2017-11-01")
    assert ("Terminate" in events) == (version >= "2019-01-01")
    reboot = events["Reboot"]
    assert ("Description" in reboot) == (version >= "2019-04-01")
    assert ("EventSource" in reboot) == (version >= "2019-08-01")
    assert ("DurationInSeconds" in reboot) == (version >= "2020-07-01")
    first = version == "2017-03-01"
    assert reboot["Resources"] == ["_rehearsal_3" if first else "rehearsal_3"]


async def test_the_first_version_asks_for_no_header(http, url):
    async with http.get(url + EVENTS, params={"api-version": "2017-03-01"}) as got:
        assert got.status == 200


async def test_the_first_request_can_be_slow(http, url, azure, reader):
    azure.faults.add("slow-first", 60)

    with pytest.raises(TimeoutError):
        await http.get(
            url + EVENTS, params=VERSION, headers=HEADER, timeout=aiohttp.ClientTimeout(total=0.1)
        )

    assert await reader.events() == []


async def test_an_override_replaces_the_document_for_those_let_through(http, url, azure, reader):
    azure.override(EVENTS, b'{"DocumentIncarnation": null}')

    assert await reader.document_text() == '{"DocumentIncarnation": null}'
    async with http.get(url + EVENTS, params=VERSION) as got:
        assert got.status == 400


# --- acknowledgement -------------------------------------------------------------------------


async def test_an_acknowledged_event_starts_before_its_time(azure, reader):
    azure.raise_notice("redeploy", 900)
    [event] = await reader.events()

    assert await reader.acknowledge(request_to_start(event["EventId"])) == 200

    [event] = await reader.events()
    assert (event["EventStatus"], event["NotBefore"]) == ("Started", "")
    assert azure.acknowledged == [event["EventId"]]


async def test_an_event_may_be_acknowledged_twice(azure, reader):
    event = azure.add_event("Redeploy", 900)

    statuses = [await reader.acknowledge(request_to_start(event.event_id)) for _ in range(2)]

    assert statuses == [200, 200]
    assert azure.acknowledged == [event.event_id] * 2
    assert azure.incarnation == 3


async def test_an_acknowledged_event_may_wait_for_others(azure, reader):
    azure.start_on_acknowledge = False
    event = azure.add_event("Redeploy", 900)

    assert await reader.acknowledge(request_to_start(event.event_id)) == 200

    [shown] = await reader.events()
    assert shown["EventStatus"] == "Scheduled"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"StartRequests": []}',
        b'{"StartRequests": [{}]}',
        b'{"StartRequests": ["x"]}',
        b'{"StartRequests": [{"EventId": 7}]}',
        b'{"StartRequests": [{"EventId": "00000000-0000-4000-8000-000000000000"}]}',
    ],
)
async def test_a_malformed_acknowledgement_is_400(azure, reader, body):
    azure.raise_notice("redeploy", 900)

    assert await reader.acknowledge(body) == 400
    assert azure.acknowledged == []


# --- the instance's own data -----------------------------------------------------------------


async def test_the_instance_is_known_by_the_name_in_resources_and_not_by_its_host_name(reader):
    compute = await reader.instance("/compute")

    assert compute["name"] == "rehearsal_3"
    assert compute["osProfile"]["computerName"] == "rehearsal000003"
    assert compute["vmScaleSetName"] == "rehearsal"
    assert compute["priority"] == "Spot"


async def test_every_plain_value_is_a_text(reader):
    def plain(node: Any) -> list[Any]:
        if isinstance(node, dict):
            return [leaf for value in node.values() for leaf in plain(value)]
        if isinstance(node, list):
            return [leaf for value in node for leaf in plain(value)]
        return [node]

    whole = await reader.instance("", format="json")

    assert set(whole) == {"compute", "network"}
    assert {type(leaf) for leaf in plain(whole)} == {str}


async def test_a_value_alone_needs_the_text_form(reader):
    assert await reader.instance("/compute/name", format="text") == "rehearsal_3"
    assert await reader.instance("/compute/name") == 400
    assert await reader.instance("/compute", format="text") == 400
    address = "/network/interface/0/ipv4/ipAddress/0/privateIpAddress"
    assert await reader.instance(address, format="text") == "192.0.2.13"


@pytest.mark.parametrize("path", ["/compute/nothing", "/network/interface/9", "/compute/name/x"])
async def test_an_element_that_is_missing_is_404(reader, path):
    assert await reader.instance(path, format="text") == 404


async def test_old_versions_lack_the_newer_fields(reader):
    compute = await reader.instance("/compute", version="2017-08-01")

    assert "priority" not in compute
    assert "osProfile" not in compute


async def test_the_versions_of_the_two_endpoints_differ(http, url):
    async with http.get(url + INSTANCE, params=VERSION, headers=HEADER) as got:
        assert got.status == 400
        assert (await got.json())["newest-versions"][0] == "2025-04-07"
