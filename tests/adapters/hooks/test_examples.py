"""The example programs, run as hooks are, with stand-ins for the schedulers' own commands."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lastcall.hooks import program
from lastcall.hooks.message import as_json, as_variables, fields_of
from lastcall.hooks.program import Result
from support.agent_socket import view
from support.happenings import UNIX_AT_ZERO

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "hooks"

STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case "$(basename "$0") $*" in
    *"-t {{"*) echo "${ELIGIBILITY:-eligible}" ;;
    python3*) echo 0123abcd ;;
    curl*) cat >>"$CALLS" ;;
esac
"""


class Site:
    """A folder in which the schedulers' commands only note how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls"
        self.calls_file.touch()
        commands = folder / "bin"
        commands.mkdir()
        for name in ("nomad", "ray", "python3", "curl"):
            stand_in = commands / name
            stand_in.write_text(STAND_IN)
            stand_in.chmod(0o755)
        self.environment = {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "CALLS": str(self.calls_file),
            "NOMAD_OURS": str(folder / "ours"),
            "NOMAD_SETTINGS": str(folder / "nomad.env"),
            "RAY_SETTINGS": str(folder / "ray.env"),
        }

    async def run(
        self, name: str, event: str, *words: str, deadline: float | None = 100.0
    ) -> Result:
        shown = view("aws-1", deadline=deadline, told=True, drains=True)
        fields = fields_of(event, shown, node_name="gpu-7", now=0.0, wall=UNIX_AT_ZERO)
        return await program.run(
            [str(EXAMPLES / name), *words],
            environment={**self.environment, **as_variables(fields)},
            content=as_json(fields),
            timeout_seconds=20,
        )

    def calls(self) -> list[str]:
        """Return the calls since this was last asked for."""
        lines = self.calls_file.read_text().splitlines()
        self.calls_file.write_text("")
        return lines


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_nomad_places_nothing_more_then_drains_and_is_given_back(site: Site) -> None:
    # given a node that Nomad uses
    assert (await site.run("nomad", "on_notice")).outcome == "ok"
    assert site.calls()[-1] == "nomad node eligibility -disable -self"
    # when training has flushed, then the rest is moved by the deadline
    assert (await site.run("nomad", "on_flushed")).outcome == "ok"
    assert site.calls() == [
        "nomad node drain -enable -self -yes -detach -deadline 100s -m lastcall: aws-1"
    ]
    # when the notice is withdrawn, then the node is given back, once
    assert (await site.run("nomad", "on_withdrawn")).outcome == "ok"
    assert site.calls() == [
        "nomad node drain -disable -self -yes",
        "nomad node eligibility -enable -self",
    ]
    assert (await site.run("nomad", "on_withdrawn")).outcome == "ok"
    assert site.calls() == []


async def test_a_node_that_another_took_out_of_nomad_is_left_alone(site: Site) -> None:
    site.environment["ELIGIBILITY"] = "ineligible"

    results = [await site.run("nomad", e) for e in ("on_notice", "on_flushed", "on_withdrawn")]

    assert [result.outcome for result in results] == ["ok"] * 3
    assert site.calls() == ["nomad node status -self -t {{.SchedulingEligibility}}"]


@pytest.mark.parametrize(("deadline", "given"), [(0.4, "1s"), (-3.0, "1s"), (None, "60s")])
async def test_nomad_is_given_a_deadline_that_it_takes(
    site: Site, deadline: float | None, given: str
) -> None:
    await site.run("nomad", "on_notice", deadline=deadline)
    await site.run("nomad", "on_flushed", deadline=deadline)

    assert f"-deadline {given} " in site.calls()[-1]


async def test_settings_of_the_site_reach_the_scheduler_s_command(site: Site) -> None:
    (site.folder / "nomad.env").write_text("ELIGIBILITY=ineligible\n")

    assert "left as it is" in (await site.run("nomad", "on_notice")).output


@pytest.mark.parametrize(("deadline", "given"), [(100.9, 90), (5.0, 1), (None, 30)])
async def test_ray_is_told_that_its_node_goes(
    site: Site, deadline: float | None, given: int
) -> None:
    assert (await site.run("ray", "on_notice", deadline=deadline)).outcome == "ok"

    assert site.calls()[-1] == (
        "ray drain-node --node-id 0123abcd --reason DRAIN_NODE_REASON_PREEMPTION "
        f"--reason-message lastcall: aws-1 --deadline-remaining-seconds {given}"
    )


async def test_a_scheduler_of_one_s_own_is_posted_the_notice(site: Site) -> None:
    result = await site.run("post", "on_notice", "https://scheduler/notices", "/etc/token")

    assert result.outcome == "ok"
    called, content = site.calls()
    assert called.endswith("--data-binary @- --header @/etc/token https://scheduler/notices")
    assert '"notice_id": "aws-1"' in content


async def test_a_program_that_is_used_wrongly_says_so(site: Site) -> None:
    result = await site.run("post", "on_notice")

    assert result.outcome == "failed"
    assert "needs a URL" in result.output


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_an_example_is_a_program_that_names_its_page(name: str) -> None:
    file = EXAMPLES / name

    assert shutil.which(str(file))
    assert "docs/how-to/run-programs-on-a-notice.md" in file.read_text()
