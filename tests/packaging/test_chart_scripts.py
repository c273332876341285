"""The two small programs that the chart's pods run do what they are there for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from support.helm import CHART, render
from support.needs import need_program, need_root
from support.running_agent import free_port

ASK = (CHART / "files/ask_agents.py").read_text(encoding="utf-8").strip()
HAND_OVER = (CHART / "files/hand_over.py").read_text(encoding="utf-8").strip()
METRICS = 'lastcall_build_info{version="0"} 1.0\n'
NOBODY = 65534


def run(script, *arguments, prefix=()):
    return subprocess.run(
        [*prefix, sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )


@contextmanager
def agent(pages: dict[str, tuple[int, str]]) -> Iterator[int]:
    """Serve pages as an agent would, and yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = pages[self.path]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_the_pods_run_the_scripts_as_they_are_in_the_chart():
    rendered = render({"runAs": {"user": NOBODY}})

    (test,) = rendered.one("Pod", "lastcall-test")["spec"]["containers"]
    assert test["command"] == ["python3", "-c"]
    assert test["args"] == [f"{ASK}\n", "lastcall.lastcall.svc", "9855"]
    (init,) = rendered.pod["initContainers"]
    assert init["command"] == ["python3", "-c"]
    assert init["args"][0] == f"{HAND_OVER}\n"


def test_agents_that_are_ready_and_show_metrics_pass():
    with agent({"/readyz": (200, "{}"), "/metrics": (200, METRICS)}) as port:
        asked = run(ASK, "127.0.0.1", port, 0)

    assert asked.stdout == "1 agents are ready and show their metrics\n", asked.stderr
    assert asked.returncode == 0


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ({"/readyz": (503, '{"ready": false}')}, 'is not ready: {"ready": false}'),
        ({"/readyz": (200, "{}"), "/metrics": (429, "")}, "shows no metrics: 429"),
        ({"/readyz": (200, "{}"), "/metrics": (200, "up 1")}, "shows no metrics: 200"),
    ],
    ids=["not ready", "too often", "another program"],
)
def test_an_agent_that_is_not_well_is_named_with_what_it_lacks(pages, said):
    with agent(pages) as port:
        asked = run(ASK, "127.0.0.1", port, 0)

    assert asked.stdout == f"the agent at 127.0.0.1 {said}\n"
    assert asked.returncode == 1


def test_an_agent_that_does_not_answer_is_named():
    asked = run(ASK, "127.0.0.1", free_port(), 0)

    assert asked.stdout.startswith("the agent at 127.0.0.1 does not answer: ")
    assert asked.returncode == 1


def test_a_name_that_leads_nowhere_is_no_success():
    asked = run(ASK, "lastcall.invalid", 9855, 0)

    assert asked.stdout == "lastcall.invalid leads to no agent\n"
    assert asked.returncode == 1


def owners(*paths):
    return {(os.lstat(path).st_uid, os.lstat(path).st_gid) for path in paths}


def test_directories_are_handed_over_and_back_and_links_are_not_followed(tmp_path):
    need_root()
    (init,) = render({"runAs": {"user": NOBODY}}).pod["initContainers"]
    capabilities = [name.lower() for name in init["securityContext"]["capabilities"]["add"]]
    bounds = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    as_in_the_pod = [need_program("setpriv", "util-linux"), "--bounding-set", bounds, "--"]
    kept = tmp_path / "kept"
    kept.touch()
    state = tmp_path / "state"
    (state / "inner").mkdir(parents=True)
    (state / "inner").chmod(0o700)
    (state / "inner/journal").touch()
    (state / "link").symlink_to(kept)
    run_dir = tmp_path / "run"
    run_dir.mkdir()

    given = [run_dir, state, state / "inner", state / "inner/journal", state / "link"]

    for user in (NOBODY, 0):
        done = run(HAND_OVER, user, user, run_dir, state, prefix=as_in_the_pod)

        assert done.stdout == f"{run_dir}, {state} belong to {user}:{user}\n", done.stderr
        assert owners(*given) == {(user, user)}
        assert owners(kept) == {(0, 0)}
