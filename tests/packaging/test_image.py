"""The container image is built, and holds and does what a cluster needs of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import lastcall
from support.image import WRITABLE, Image, built_image
from support.running_agent import free_port

# Measured: 29 MB, of which 20 are the packages, 4 the agent and 4 bytecode of the base's Python.
MOST_BYTES_ON_TOP = 36_000_000
START_SECONDS = 15.0

pytestmark = pytest.mark.timeout(170)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    if os.environ.get("LASTCALL_TESTS_IMAGE") != "1":
        pytest.skip("builds the image only with LASTCALL_TESTS_IMAGE=1, as CI does; takes 30 s")
    with built_image(tmp_path_factory.mktemp("image")) as image:
        yield image


def tree_bytes(root: Path) -> int:
    return sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())


def holds(image: Image, *patterns: str) -> list[str]:
    found = [path for pattern in patterns for path in image.root.glob(pattern)]
    return sorted(str(path.relative_to(image.root)) for path in found)


def test_a_runtime_is_told_to_run_the_agent_as_nobody_in_particular(image):
    assert (image.config["Entrypoint"], image.config["Cmd"]) == (["lastcall"], ["run"])
    # A name would not do: Kubernetes cannot tell whether it is root.
    assert image.config["User"] == "65532:65532"
    assert list(image.config["ExposedPorts"]) == ["9855/tcp"]


def test_it_says_what_it_is(image):
    labels = image.config["Labels"]
    assert labels["org.opencontainers.image.version"] == lastcall.__version__
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert "org.opencontainers.image.source" in labels
    assert "org.opencontainers.image.revision" in labels


def test_the_commands_work_on_a_read_only_root(image, tmp_path):
    assert image.output(tmp_path, "lastcall", "--version") == f"lastcall {lastcall.__version__}\n"
    shown = image.output(tmp_path, "lastcall", "config")
    assert 'path = "/run/lastcall/agent.sock"' in shown


def test_a_kubeconfig_can_be_read(image, tmp_path):
    assert image.output(tmp_path, "python3", "-c", "import yaml; print(yaml.safe_load('1'))")


def test_gpus_can_be_watched_once_the_machine_s_driver_is_mounted(image, tmp_path):
    program = """
import pynvml
try:
    pynvml.nvmlInit()
except pynvml.NVMLError as error:
    print(error.value)
"""
    # 12: the binding is there and the driver's library, which must be the machine's own, is not.
    assert image.output(tmp_path, "python3", "-c", program) == "12\n"


def test_its_user_can_write_nothing_but_the_two_directories_of_the_agent(image):
    def may_write(path: Path) -> bool:
        status = path.lstat()
        owned = image.user_id in {status.st_uid, status.st_gid}
        return owned or (not path.is_symlink() and bool(status.st_mode & stat.S_IWOTH))

    writable = [f"/{path.relative_to(image.root)}" for path in image.root.rglob("*")]
    writable = [path for path in writable if may_write(image.root / path[1:])]

    assert sorted(writable) == sorted(WRITABLE)


def test_what_built_it_is_not_in_it(image):
    tools = [f"**/{name}" for name in ("pip", "pip-*", "*.whl", "hatchling", "gcc", "make")]
    assert holds(image, "src", "root/.cache", *tools) == []


def test_it_adds_little_to_its_base(image):
    assert tree_bytes(image.root) - tree_bytes(image.base) < MOST_BYTES_ON_TOP


def test_nothing_is_compiled_when_the_agent_starts(image, tmp_path):
    # given a base whose library has no bytecode, as the official images of Python are
    assert not list(image.base.rglob("*.pyc"))
    # when the agent is loaded
    program = """
import json, os, sys, lastcall.cli.run, lastcall.daemon.build, pynvml
cached = [getattr(module, "__cached__", None) for module in list(sys.modules.values())]
print(json.dumps([path for path in cached if path and not os.path.exists(path)]))
"""
    # then all of it is there
    assert json.loads(image.output(tmp_path, "python3", "-c", program)) == []


def test_the_agent_runs_and_answers_on_a_read_only_root(image, tmp_path):
    port = free_port()
    settings = (f"http.listen=127.0.0.1:{port}", "notices.provider=none", "node_name=node-1")
    flags = [flag for setting in settings for flag in ("--set", setting)]
    command = image.command(tmp_path, *image.config["Cmd"], *flags)
    with subprocess.Popen(
        command, env=image.environment, stderr=subprocess.PIPE, text=True
    ) as agent:
        try:
            assert answer(f"http://127.0.0.1:{port}/healthz", agent) == (200, "ok\n")

            assert os.statvfs(f"/proc/{agent.pid}/root").f_flag & os.ST_RDONLY
            assert Path(f"/proc/{agent.pid}").stat().st_uid == image.user_id
            assert greeting(tmp_path / "run/agent.sock")["node"] == "node-1"
        finally:
            agent.send_signal(signal.SIGTERM)
            _, log = agent.communicate(timeout=10)
    assert agent.returncode == 0, log
    assert (tmp_path / "state/journal.jsonl").stat().st_size > 0


def answer(url: str, agent: subprocess.Popen[str]) -> tuple[int, str]:
    """Return status and body once the agent serves them."""
    give_up_at = time.monotonic() + START_SECONDS
    while agent.poll() is None and time.monotonic() < give_up_at:
        try:
            with urllib.request.urlopen(url, timeout=5) as served:
                return served.status, served.read().decode()
        except urllib.error.URLError:
            time.sleep(0.05)
    pytest.fail("the agent does not answer")


def greeting(path: Path) -> dict[str, object]:
    """Return what a training process on the node is welcomed with."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        client.sendall(b'{"type":"hello","protocol":[1,1]}\n')
        with client.makefile() as lines:
            return dict(json.loads(lines.readline()))
