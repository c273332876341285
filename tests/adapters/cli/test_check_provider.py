"""What is found about providers, against the product's own simulated services."""

from __future__ import annotations

import asyncio

import pytest

from lastcall.cli.check import looks, provider
from lastcall.cli.check.findings import Level
from lastcall.cli.check.provider import check_provider
from lastcall.simulate import load
from lastcall.simulate.server import serve
from lastcall.sources import detect
from support.examination import found_by, one_found_by, subject_of

PROVIDERS = ("aws", "azure", "gcp")
NOBODY = "http://127.0.0.1:9"


def watching(name, url):
    return subject_of(f"notices.provider={name}", f"notices.{name}.endpoint={url}")


async def findings_of(metadata, *settings):
    async with serve(metadata) as url:
        found = await found_by(check_provider, watching(metadata.provider, url))
    clocks = [one for one in found if one.check == "clock"]
    return [one for one in found if one.check == "provider"], clocks


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_provider_that_answers_is_good_and_says_what_the_machine_is(name):
    metadata = load(name)()

    (answered,), (clock,) = await findings_of(metadata)

    assert (answered.level, clock.level) == (Level.OK, Level.OK)
    assert f"{name} at http://" in answered.what
    assert "rehearsal" in answered.what


@pytest.mark.parametrize("name", PROVIDERS)
async def test_all_that_the_source_asks_for_is_asked_for_once_and_little_more(name):
    metadata = load(name)()

    await findings_of(metadata)

    assert len(metadata.log.recent) <= 30


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_notice_that_stands_is_worth_a_note(name):
    metadata = load(name)()
    metadata.raise_notice("preemption")

    (answered, note), _ = await findings_of(metadata)

    assert answered.level is Level.OK
    assert (note.level, "preemption" in note.what) == (Level.NOTE, True)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_service_that_nobody_serves_is_a_problem(name):
    one = await one_found_by(check_provider, watching(name, NOBODY))

    assert one.level is Level.PROBLEM
    assert "Connection refused" in one.what
    assert "let this machine" in one.remedy


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_service_that_hangs_is_a_problem_at_the_end_of_the_time(name, monkeypatch):
    monkeypatch.setattr(provider, "LOOK_SECONDS", 0.3)
    metadata = load(name)()
    metadata.faults.add("hang")

    (one,), _ = await findings_of(metadata)

    assert one.level is Level.PROBLEM
    assert "no answer within 0.3 s for " in one.what
    assert all(scope in one.what for scope in looks.SCOPES[name])


@pytest.mark.parametrize(
    ("name", "fault", "level", "said", "remedy"),
    [
        ("aws", "disabled", Level.PROBLEM, "metadata service disabled", "metadata options"),
        ("gcp", "gke-proxy", Level.PROBLEM, "cannot be seen from here", "hostNetwork"),
        ("azure", "garbled", Level.PROBLEM, "malformed for", "a captive portal"),
        ("azure", "throttle", Level.WARNING, "throttled for", "how often"),
        ("aws", "503", Level.PROBLEM, "status 503", "reach it"),
    ],
)
async def test_trouble_comes_with_the_services_words_and_its_own_remedy(
    name, fault, level, said, remedy
):
    metadata = load(name)()
    metadata.faults.add_text(fault)

    (one,), _ = await findings_of(metadata)

    assert one.level is level
    assert said in one.what
    assert remedy in one.remedy


async def test_one_path_in_trouble_is_named(tmp_path):
    metadata = load("aws")()
    metadata.faults.add("garbled", path="/latest/meta-data/events/maintenance")

    (one,), _ = await findings_of(metadata)

    assert "malformed for events/maintenance/scheduled:" in one.what


async def test_azures_first_answer_may_be_long_in_coming(monkeypatch):
    monkeypatch.setattr(provider, "LOOK_SECONDS", 0.5)
    metadata = load("azure")()
    metadata.faults.add("slow-first")

    (one,), _ = await findings_of(metadata)

    assert one.level is Level.WARNING
    assert "for events" in one.what
    assert "two minutes" in one.remedy


@pytest.mark.parametrize(
    ("skew_seconds", "level", "said"),
    [
        (0.0, Level.OK, "0."),
        (-30.0, Level.WARNING, "s ahead of that of aws"),
        (300.0, Level.PROBLEM, "s behind that of aws"),
    ],
)
async def test_clocks_that_differ_are_told_apart_by_how_far(skew_seconds, level, said):
    metadata = load("aws")()
    metadata.clock_skew_seconds = skew_seconds

    _, (clock,) = await findings_of(metadata)

    assert clock.level is level
    assert said in clock.what


async def test_no_provider_by_choice_is_good():
    one = await one_found_by(check_provider, subject_of("notices.provider=none"))

    assert (one.level, one.check) == (Level.OK, "provider")


# --- finding one -----------------------------------------------------------------------------


@pytest.fixture
def unknown_firmware(tmp_path, monkeypatch):
    monkeypatch.setattr(detect.find_providers, "__defaults__", (tmp_path,))


def looking(**endpoints):
    urls = dict.fromkeys(PROVIDERS, NOBODY) | endpoints
    return subject_of(*(f"notices.{name}.endpoint={url}" for name, url in urls.items()))


async def test_a_provider_that_is_found_is_looked_at(unknown_firmware):
    async with serve(load("gcp")()) as url:
        how, answered, clock = await found_by(check_provider, looking(gcp=url))

    assert (how.level, how.what) == (Level.OK, f"{url} answers as gcp")
    assert "gcp at" in answered.what
    assert clock.check == "clock"


async def test_no_provider_is_a_warning(unknown_firmware):
    one = await one_found_by(check_provider, looking())

    assert one.level is Level.WARNING
    assert "no provider found" in one.what
    assert 'notices.provider = "none"' in one.remedy


async def test_a_search_that_hangs_ends(unknown_firmware, monkeypatch):
    monkeypatch.setattr(provider, "DETECT_SECONDS", 0.2)
    metadata = load("aws")()
    metadata.faults.add("hang")

    async with serve(metadata) as url:
        one = await one_found_by(check_provider, looking(aws=url))

    assert one.level is Level.WARNING
    assert "no provider found within 0.2 s" in one.what


async def test_a_source_that_fails_is_said(monkeypatch):
    class Broken:
        name = "aws"

        async def run(self):
            await asyncio.sleep(0)
            raise RuntimeError("a fault of ours")

    monkeypatch.setattr(looks, "cloud_source", lambda *_: Broken())
    one = await one_found_by(check_provider, watching("aws", NOBODY))

    assert one.level is Level.PROBLEM
    assert "a fault of ours" in one.what
