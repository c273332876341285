"""Which sources the settings ask for."""

from __future__ import annotations

import pytest

from lastcall.config.notices import FileNotices, Notices, ScheduleNotices, UrlNotices
from lastcall.sources.build import cloud_source, standing_sources
from support.hand_clocks import HandClocks
from support.watched_source import Recorder


def names(notices: Notices) -> list[str]:
    return [source.name for source in standing_sources(notices, Recorder(), HandClocks())]


def test_nothing_stands_beside_the_clouds_unless_it_is_configured():
    assert names(Notices()) == []


def test_what_is_configured_stands_whatever_cloud_there_is():
    notices = Notices(
        provider=(),
        file=FileNotices(path="/run/notice"),
        url=UrlNotices(url="tencent"),
        schedule=ScheduleNotices(ends_at="2030-01-31T10:00:00Z"),
    )

    assert names(notices) == ["file", "url", "schedule"]


@pytest.mark.parametrize("name", ["aws", "gcp", "azure"])
def test_each_cloud_has_a_source_of_its_name(name):
    assert cloud_source(name, Notices(), Recorder(), HandClocks()).name == name
