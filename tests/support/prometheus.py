"""A real Prometheus that has scraped one exposition once, and the selectors in its queries."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from support.running_agent import free_port

START_SECONDS = 20.0

_SELECTOR = re.compile(r"\b(?:lastcall_\w+|up\b)(?:\{[^}]*\})?")
_CONFIGURATION = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: lastcall
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def selectors(query: str) -> list[str]:
    """Return what a query reads, each metric with its label matchers."""
    return _SELECTOR.findall(query)


class Prometheus:
    """A running server.

    Args:
        port: where its API is.
    """

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of an API's answer; an answer that is an error raises ``HTTPError``."""
        url = f"{self._base}{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)["data"]

    def find(self, query: str) -> list[dict[str, Any]]:
        """Return what a query results in now."""
        result: list[dict[str, Any]] = self.get("query", query=query)["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """Return its alerting rules, each with the health of its last evaluation."""
        groups = self.get("rules", type="alert")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def settled(self) -> bool:
        """Return whether the exposition has been scraped and every rule been evaluated."""
        try:
            scraped = bool(self.find("up == 1"))
            return scraped and all(rule["health"] != "unknown" for rule in self.rules())
        except (urllib.error.URLError, ConnectionError):
            return False


@contextmanager
def scraping(program: str, folder: Path, *, rules: Path, exposition: str) -> Iterator[Prometheus]:
    """Run Prometheus on an exposition until the block ends.

    Args:
        program: the server's executable.
        folder: for its data, configuration and log.
        rules: the rules that it loads.
        exposition: what it scrapes, in the text format.
    """
    port = free_port()
    log = folder / "log"
    with _served(exposition) as target, log.open("wb") as output:
        configuration = folder / "prometheus.yml"
        configuration.write_text(_CONFIGURATION.format(rules=rules, port=target))
        server = subprocess.Popen(
            [
                program,
                f"--config.file={configuration}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=output,
            stderr=output,
        )
        try:
            prometheus = Prometheus(port)
            _wait_until_settled(prometheus, server, log)
            yield prometheus
        finally:
            server.kill()
            server.wait()


def _wait_until_settled(prometheus: Prometheus, server: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + START_SECONDS
    while not prometheus.settled():
        alive = server.poll() is None and time.monotonic() < give_up_at
        assert alive, log.read_text(errors="replace")
        time.sleep(0.05)


@contextmanager
def _served(exposition: str) -> Iterator[int]:
    """Serve a text at every path of a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(exposition.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
