"""What is found about a file, an address and a schedule that announce the machine's end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from lastcall.cli.check import sources
from lastcall.cli.check.findings import Level
from lastcall.cli.check.sources import check_sources
from support.examination import found_by, one_found_by, subject_of


@asynccontextmanager
async def answering(status, body=""):
    """Answer every request on an address of the test's own."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/end"


def at(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")


async def test_where_none_is_set_there_is_nothing_to_say():
    assert await found_by(check_sources, subject_of()) == []


# --- a file ----------------------------------------------------------------------------------


async def test_a_file_that_is_not_there_is_good(tmp_path):
    one = await one_found_by(check_sources, subject_of(f"notices.file.path={tmp_path}/notice"))

    assert (one.level, one.what) == (Level.OK, "file: nothing is announced now")


async def test_a_file_that_is_there_is_worth_a_note(tmp_path):
    (tmp_path / "notice").write_text("")

    one = await one_found_by(check_sources, subject_of(f"notices.file.path={tmp_path}/notice"))

    assert one.level is Level.NOTE


async def test_a_file_whose_directory_is_missing_is_a_problem(tmp_path):
    one = await one_found_by(check_sources, subject_of(f"notices.file.path={tmp_path}/no/notice"))

    assert (one.level, one.what) == (
        Level.PROBLEM,
        f"file: there is no directory {tmp_path}/no",
    )


async def test_a_directory_in_the_files_place_is_a_problem(tmp_path):
    (tmp_path / "notice").mkdir()

    one = await one_found_by(check_sources, subject_of(f"notices.file.path={tmp_path}/notice"))

    assert one.level is Level.PROBLEM
    assert "there is a directory, no file" in one.what


# --- an address ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "level", "said"),
    [
        (404, "", Level.OK, "nothing is announced now"),
        (204, "", Level.OK, "nothing is announced now"),
        (200, at(300.0), Level.NOTE, "an end is announced now"),
        (200, "<html>", Level.PROBLEM, "malformed"),
        (500, "", Level.PROBLEM, "error"),
    ],
    ids=["404", "204", "a time", "a page", "500"],
)
async def test_an_address_is_told_by_what_it_answers(status, body, level, said):
    async with answering(status, body) as url:
        one = await one_found_by(check_sources, subject_of(f"notices.url.url={url}"))

    assert one.level is level
    assert one.what.startswith("url: ")
    assert said in one.what


async def test_an_address_that_nobody_listens_at_is_a_problem():
    one = await one_found_by(check_sources, subject_of("notices.url.url=http://127.0.0.1:9/x"))

    assert one.level is Level.PROBLEM
    assert "404 or 204" in one.remedy


async def test_an_address_that_never_answers_is_a_problem_at_the_end_of_the_time(monkeypatch):
    monkeypatch.setattr(sources, "LOOK_SECONDS", 0.1)

    async def hang(reader, writer):
        await reader.read()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        one = await one_found_by(
            check_sources, subject_of(f"notices.url.url=http://127.0.0.1:{port}/x")
        )

    assert (one.level, one.what) == (Level.PROBLEM, "url: no answer within 0.1 s")


# --- a schedule ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "level", "said"),
    [
        (86_400.0, Level.OK, "nothing is announced now"),
        (60.0, Level.NOTE, "an end is announced now"),
        (-60.0, Level.PROBLEM, "is past: nothing is announced for it"),
    ],
)
async def test_a_schedule_is_told_by_how_far_off_it_is(seconds, level, said):
    one = await one_found_by(check_sources, subject_of(f"notices.schedule.ends_at={at(seconds)}"))

    assert one.level is level
    assert one.what.startswith("schedule: ")
    assert said in one.what


async def test_each_that_is_set_has_a_line(tmp_path):
    found = await found_by(
        check_sources,
        subject_of(f"notices.file.path={tmp_path}/n", f"notices.schedule.ends_at={at(86_400.0)}"),
    )

    assert [one.what.partition(":")[0] for one in found] == ["file", "schedule"]
