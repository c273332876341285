"""What the source for EC2 tells of each path of the metadata service."""

from __future__ import annotations

import pytest

from lastcall.core.model import Action, Kind
from lastcall.simulate.aws import TOKEN_HEADER
from lastcall.sources.aws_documents import INSTANCE_ACTION, REBALANCE, SCHEDULED, TARGET_STATE
from lastcall.sources.base import SystemClock
from support.aws_source import META, SCOPES, cleared, sighted, source_of, watched_alone
from support.watched_source import watching

# --- an idle instance ------------------------------------------------------------------------


@pytest.mark.usefixtures("watched")
async def test_an_idle_instance_is_well_and_has_no_notice(seen):
    for scope in SCOPES:
        await seen.polled(scope, 3)

    for scope in SCOPES:
        assert set(seen.results(scope)) == {"ok"}
        assert {report.sightings for report in seen.reports(scope)} == {()}
        assert all(poll.detail == "" for poll in seen.polls(scope))


@pytest.mark.usefixtures("watched")
async def test_nothing_under_any_path_is_not_the_absence_of_the_service(seen, metadata):
    metadata.lifecycle_state = None
    for scope in (SCHEDULED, "spot/", "events/"):
        metadata.override(META + scope, b"<html/>", 404)

    for scope in SCOPES:
        await seen.polled(scope, 5)

    for scope in SCOPES:
        assert set(seen.results(scope)) == {"ok"}


@pytest.mark.usefixtures("watched")
async def test_the_legacy_termination_time_is_never_asked_for(seen, metadata):
    metadata.override(META + "spot/termination-time", "2015-01-05T18:02:00Z")

    await seen.polled(INSTANCE_ACTION, 5)

    assert metadata.log.count(path=META + "spot/termination-time") == 0
    assert seen.standing(INSTANCE_ACTION) == ()


@pytest.mark.usefixtures("watched")
async def test_each_request_has_exactly_one_token(seen, metadata):
    await seen.polled(INSTANCE_ACTION, 5)

    gets = [one for one in metadata.log.recent if one.method == "GET"]
    assert gets
    assert all(len(one.header(TOKEN_HEADER)) == 1 for one in gets)
    assert metadata.log.count(method="PUT") == 1


async def test_each_path_has_a_schedule_of_its_own(url, seen):
    async with watched_alone(url, seen, INSTANCE_ACTION):
        await seen.polled(INSTANCE_ACTION, 20)

    for scope in (TARGET_STATE, REBALANCE, SCHEDULED):
        assert len(seen.polls(scope)) <= 1


async def test_a_source_that_is_cancelled_ends_and_can_run_again(url, seen):
    source = source_of(url, seen)
    for _ in range(2):
        async with watching(source):
            await seen.polled(INSTANCE_ACTION, 2)


# --- what it announces -----------------------------------------------------------------------


@pytest.mark.parametrize("word", ["terminate", "stop"])
@pytest.mark.usefixtures("watched")
async def test_a_spot_interruption_is_seen_with_its_deadline(seen, metadata, word):
    await seen.polled(INSTANCE_ACTION, 10)
    raised = metadata.raise_notice(word, lead_seconds=120.0)
    clock = SystemClock()
    due_at = clock.monotonic() + raised.deadline_unix - clock.wall()

    await sighted(seen, INSTANCE_ACTION)

    [sighting] = seen.standing(INSTANCE_ACTION)
    assert sighting.kind is Kind.PREEMPTION
    assert sighting.code == word
    assert due_at - 1.1 <= sighting.deadline <= due_at + 0.05
    assert seen.results(INSTANCE_ACTION)[-1] == "notice"
    assert seen.reports(INSTANCE_ACTION)[-1].absences_to_withdraw == 3


@pytest.mark.usefixtures("watched")
async def test_a_hibernation_is_due_at_once(seen, metadata):
    metadata.raise_notice("hibernate")

    await sighted(seen, INSTANCE_ACTION)

    [sighting] = seen.standing(INSTANCE_ACTION)
    assert sighting.action is Action.HIBERNATE
    assert sighting.deadline <= SystemClock().monotonic()


@pytest.mark.usefixtures("watched")
async def test_a_scale_in_is_seen_and_clears(seen, metadata):
    metadata.raise_notice("termination")
    await sighted(seen, TARGET_STATE)
    [sighting] = seen.standing(TARGET_STATE)
    assert (sighting.kind, sighting.deadline) == (Kind.TERMINATION, None)

    metadata.withdraw()

    await cleared(seen, TARGET_STATE)
    assert seen.reports(TARGET_STATE)[-1].absences_to_withdraw == 1


@pytest.mark.usefixtures("watched")
async def test_a_rebalance_recommendation_is_seen(seen, metadata):
    metadata.raise_notice("rebalance")

    await sighted(seen, REBALANCE)

    [sighting] = seen.standing(REBALANCE)
    assert (sighting.kind, sighting.action) == (Kind.REBALANCE, Action.NONE)
    assert sighting.identity


@pytest.mark.usefixtures("watched")
async def test_scheduled_events_are_seen_and_a_canceled_one_goes(seen, metadata):
    metadata.canceled_stay_listed = True
    now_unix = SystemClock().wall()
    reboot = metadata.schedule("system-reboot", now_unix + 3 * 86400)
    stop = metadata.schedule("instance-stop", now_unix + 5 * 86400)
    await seen.until(lambda: len(seen.standing(SCHEDULED)) == 2)
    assert {one.key for one in seen.standing(SCHEDULED)} == {reboot.event_id, stop.event_id}

    metadata.end_event(reboot)

    await seen.until(lambda: len(seen.standing(SCHEDULED)) == 1)
    [sighting] = seen.standing(SCHEDULED)
    assert (sighting.key, sighting.action) == (stop.event_id, Action.STOP)
    assert sighting.deadline == pytest.approx(SystemClock().monotonic() + 5 * 86400, abs=5)


@pytest.mark.usefixtures("watched")
async def test_an_event_with_an_odd_date_is_read_and_one_with_none_hides_nothing(seen, metadata):
    metadata.override(
        META + SCHEDULED,
        b"""[{"NotBefore":" 1 mar 2033 09:00:43 GMT ","Code":"system-reboot",
              "EventId":"odd","State":"active"},
             {"NotBefore":"soon","Code":"instance-stop","EventId":"none","State":"active"}]""",
    )

    await sighted(seen, SCHEDULED)

    odd, none = seen.standing(SCHEDULED)
    assert odd.deadline is not None
    assert none.deadline is None
    assert seen.results(SCHEDULED)[-1] == "malformed"
    assert seen.polls(SCHEDULED)[-1].detail == (
        "events/maintenance/scheduled: none: no time: NotBefore 'soon'"
    )


# --- clocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("skew_seconds", [-300.0, 300.0])
async def test_a_service_with_another_clock_is_told_apart_and_understood(
    url, seen, metadata, skew_seconds
):
    metadata.clock_skew_seconds = skew_seconds
    metadata.raise_notice("terminate", 120.0)
    async with watched_alone(url, seen, INSTANCE_ACTION):
        await sighted(seen, INSTANCE_ACTION)
        await seen.polled(INSTANCE_ACTION, 20)
        [sighting] = seen.standing(INSTANCE_ACTION)
        left_seconds = sighting.deadline - SystemClock().monotonic()

    assert left_seconds == pytest.approx(120.0, abs=2.0)
    told = seen.polls(INSTANCE_ACTION)[-1].skew_seconds
    assert told == pytest.approx(-skew_seconds, abs=0.6)
