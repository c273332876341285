"""``lastcall simulate`` as a program: start, notice, signals, wrong usage."""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from lastcall.cli import simulate
from support.needs import need_program, need_root

PROGRAM = """
import argparse, sys
from lastcall.cli import simulate
parser = argparse.ArgumentParser(prog="lastcall")
simulate.add_parser(parser.add_subparsers(required=True))
arguments = parser.parse_args()
sys.exit(arguments.run(arguments))
"""
HEADER = {"Metadata": "true"}
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"


class Running:
    """The program while it runs; every line that it tells is kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[str] = []

    async def line(self) -> str:
        assert self.process.stderr is not None
        line = (await asyncio.wait_for(self.process.stderr.readline(), 10)).decode().rstrip("\n")
        self.told.append(line)
        return line

    async def url(self) -> str:
        found = re.search(r"listening on (http://\S+);", await self.line())
        assert found, self.told
        return found[1]

    async def end(self) -> tuple[int, str, str]:
        out, err = await asyncio.wait_for(self.process.communicate(), 10)
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def started(
    *arguments: str, program: str = PROGRAM, prefix: tuple[str, ...] = ()
) -> AsyncIterator[Running]:
    process = await asyncio.create_subprocess_exec(
        *prefix,
        sys.executable,
        "-c",
        program,
        "simulate",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


Parse = Callable[..., argparse.Namespace]


@pytest.fixture
def parse() -> Parse:
    def parsed(*arguments: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser(prog="lastcall")
        simulate.add_parser(parser.add_subparsers(required=True))
        return parser.parse_args(["simulate", *arguments])

    return parsed


@pytest.fixture
def kept_signals() -> Iterator[None]:
    """Put the handlers of this process back."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


async def events(http: aiohttp.ClientSession, url: str) -> list[dict[str, object]]:
    async with http.get(url + EVENTS, headers=HEADER) as answer:
        content: dict[str, list[dict[str, object]]] = await answer.json()
        return content["Events"]


async def test_it_says_where_it_listens_and_shows_nothing_before_the_time(http):
    async with started("azure", "--listen", "127.0.0.1:0", "--after", "3600") as program:
        url = await program.url()

        assert "--set notices.provider=azure" in program.told[0]
        assert f"--set notices.azure.endpoint={url}" in program.told[0]
        assert await events(http, url) == []


async def test_a_notice_appears_and_is_told(http):
    async with started(
        *["azure", "--listen", "127.0.0.1:0", "--kind", "redeploy", "--after", "0", "--lead", "90"]
    ) as program:
        url = await program.url()

        assert "notice of redeploy, 90 s ahead: Redeploy" in await program.line()
        [event] = await events(http, url)
        assert event["EventType"] == "Redeploy"

        program.process.send_signal(signal.SIGTERM)
        assert await program.end() == (0, "", "")


async def test_the_end_and_the_withdrawal_are_told(http):
    async with started(
        *["azure", "--listen", "127.0.0.1:0", "--after", "0"],
        *["--lead", "0.05", "--withdraw-after", "0.1"],
    ) as program:
        url = await program.url()

        assert "notice of preemption, 0.05 s ahead" in await program.line()
        assert "the lead is over" in await program.line()
        assert await program.line() == "lastcall simulate azure: notice withdrawn"
        assert await events(http, url) == []


async def test_a_notice_withdrawn_before_its_end_has_no_end(http):
    async with started(
        *["gcp", "--listen", "127.0.0.1:0", "--after", "0", "--withdraw-after", "0.1"],
    ) as program:
        await program.url()

        assert "notice of preemption, 30 s ahead: instance/preempted TRUE" in await program.line()
        assert "withdrawn" in await program.line()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_quietly_while_clients_hang(http, number):
    async with started(
        *["aws", "--listen", "127.0.0.1:0", "--after", "3600", "--fault", "hang"]
    ) as program:
        url = await program.url()
        hanging = asyncio.create_task(http.get(url))
        await asyncio.sleep(0.05)

        program.process.send_signal(number)

        assert await program.end() == (0, "", "")
        with pytest.raises(aiohttp.ClientConnectionError):
            await hanging


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_during_the_slow_imports_ends_it_quietly_too(number):
    at_import = (
        "import os; from lastcall import simulate as services; "
        f"services.load = lambda provider: os.kill(os.getpid(), {int(number)})"
    )
    async with started("aws", program=at_import + PROGRAM) as program:
        assert await program.end() == (0, "", "")


async def test_faults_hold_from_the_start(http):
    async with (
        started(
            *["azure", "--listen", "127.0.0.1:0", "--fault", "slow:0.05", "--fault", "503"]
        ) as program,
        http.get(await program.url() + EVENTS, headers=HEADER) as answer,
    ):
        assert answer.status == 503


async def test_an_ipv6_address_stands_in_brackets(http):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 on this host")
    async with started("azure", "--listen", "[::1]:0") as program:
        url = await program.url()
        assert url.startswith("http://[::1]:")
        assert await events(http, url) == []


async def test_a_port_in_use_is_one_clear_line_and_code_2():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with started("azure", "--listen", f"127.0.0.1:{port}") as program:
            code, out, err = await program.end()

    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith(f"lastcall simulate: cannot listen on 127.0.0.1 port {port}: ")


async def test_an_address_of_another_machine_is_refused():
    async with started("azure", "--listen", "192.0.2.1:0") as program:
        code, _, err = await program.end()

    assert code == 2
    assert err.startswith("lastcall simulate: cannot listen on 192.0.2.1 port 0: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gcp", "--kind", "rebalance"], "gcp has no kind 'rebalance'; it has preemption, "),
        (["aws", "--kind", "freeze"], "aws has no kind 'freeze'; it has preemption, termination"),
        (["aws", "--fault", "melted"], "no fault 'melted'; there are slow, hang"),
        (["gcp", "--fault", "hop-limit"], "no fault 'hop-limit'"),
        (["aws", "--fault", "slow:soon"], "needs a number"),
    ],
)
def test_a_wrong_kind_or_fault_is_one_line_and_code_2(parse, kept_signals, capsys, arguments, said):
    parsed = parse(*arguments)

    assert parsed.run(parsed) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("lastcall simulate: ")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["oracle"],
        ["aws", "--after", "soon"],
        ["aws", "--after", "-1"],
        ["aws", "--lead", "nan"],
        ["aws", "--lead", "inf"],
        ["aws", "--withdraw-after", "-0.1"],
        ["aws", "--listen", "1338"],
        ["aws", "--listen", ":1338"],
        ["aws", "--listen", "::1:1338"],
        ["aws", "--listen", "[127.0.0.1]:1338"],
        ["aws", "--listen", "localhost:http"],
        ["aws", "--listen", "localhost:65536"],
    ],
)
def test_wrong_usage_is_code_2(parse, capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        parse(*arguments)

    assert ended.value.code == 2
    assert "usage: lastcall simulate" in capsys.readouterr().err


def test_the_help_says_the_defaults(parse, capsys):
    with pytest.raises(SystemExit) as ended:
        parse("--help")

    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "seconds until the notice appears (default 5)" in text
    assert "default 120 on aws, 30 on gcp and azure" in text
    assert "{aws,azure,gcp}" in text


def test_what_is_left_out_has_its_default(parse):
    parsed = parse("aws")

    assert (parsed.kind, parsed.after, parsed.lead, parsed.withdraw_after) == (
        "preemption",
        5.0,
        None,
        None,
    )
    assert (parsed.listen, parsed.fault) == (None, [])


@pytest.mark.root
async def test_the_real_address_can_be_served_in_a_network_of_its_own():
    need_root()
    for name, package in {"unshare": "util-linux", "ip": "iproute2"}.items():
        need_program(name, package)
    network = "ip link set lo up && ip addr add 169.254.169.254/32 dev lo && exec"
    async with started(
        *["aws", "--listen", "169.254.169.254:80", "--after", "3600", "--fault", "v1-allowed"],
        prefix=("unshare", "--net", "sh", "-c", f'{network} "$@"', "sh"),
    ) as program:
        assert await program.url() == "http://169.254.169.254"
        inside = await asyncio.create_subprocess_exec(
            *["nsenter", f"--net=/proc/{program.process.pid}/ns/net", sys.executable, "-c"],
            "import urllib.request as r;"
            "print(r.urlopen('http://169.254.169.254/latest/meta-data/instance-id').read())",
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(inside.communicate(), 10)

    assert out.decode().strip() == "b'i-0rehearsal00000000'"
