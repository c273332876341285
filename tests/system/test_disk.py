"""A disk that takes no journal costs the record and nothing else."""

from __future__ import annotations

import pytest

from lastcall.simulate.aws import AwsMetadata
from support.needs import need_namespaces
from support.running_agent import LineClient
from support.watching_agent import agent_watching

RANK = {"job": "train", "rank": 0, "world_size": 1}

ON_A_DISK_OF_ITS_OWN = """
    set -e
    mkdir -p "$1"
    mount -t tmpfs -o size=64k tmpfs "$1"
    eval "$2"
    shift 2
    exec "$@"
"""
DISKS = {
    "read-only": 'mount -o remount,ro "$1"',
    "full": 'head -c 65536 /dev/zero >"$1/filler"',
}

pytestmark = pytest.mark.root


def with_disk(folder, disk):
    need_namespaces()
    script = ("sh", "-c", ON_A_DISK_OF_ITS_OWN, "sh")
    return ("unshare", "--mount", "--", *script, str(folder / "state"), DISKS[disk])


@pytest.mark.parametrize("disk", DISKS)
async def test_a_disk_that_takes_nothing_is_a_warning_and_notices_are_told(tmp_path, disk):
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata, prefix=with_disk(tmp_path, disk)) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        metadata.raise_notice("preemption", 120)
        notice = await rank.receive("notice")
        rank.send(type="flushed", id=notice["id"], path="/mnt/shared/7", step=7)

        assert (await rank.receive("ok"))["id"] == notice["id"]
        assert await agent.metric("lastcall_journal_up") == 0
        warnings = agent.logged("journal_unavailable")
        assert [line["level"] for line in warnings] == ["warning"]
        assert str(tmp_path / "state") in warnings[0]["detail"]


async def test_a_disk_with_room_again_gets_all_that_happened(tmp_path):
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata, prefix=with_disk(tmp_path, "full")) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        metadata.raise_notice("preemption", 120)
        notice = await rank.receive("notice")
        await agent.wait(lambda: agent.logged("journal_unavailable"))
        disk = agent.path_to(tmp_path / "state")
        # when there is room again, and something must be on record
        (disk / "filler").unlink()
        rank.send(type="flushed", id=notice["id"], path="/mnt/shared/7", step=7)
        await rank.receive("ok")
        # then what came before is on record too
        await agent.wait(lambda: agent.logged("journal_recovered"))
        assert await agent.metric("lastcall_journal_up") == 1
        journal = (disk / "journal.jsonl").read_text()
        assert "/mnt/shared/7" in journal
        assert '"train"' in journal
