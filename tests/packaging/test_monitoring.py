"""Rules, their tests, runbooks and the dashboard agree with each other and with the metrics."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.needs import need_program
from support.prometheus import Prometheus, scraping, selectors

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "monitoring/alerts.yml"
RULE_TESTS = sorted((ROOT / "monitoring/tests").glob("*.yml"))
RUNBOOKS = ROOT / "docs/runbooks"
GOLDEN = (ROOT / "tests/golden/metrics_story.txt").read_text(encoding="utf-8")
DASHBOARD: dict[str, Any] = json.loads((ROOT / "monitoring/dashboard.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

ALERTS = re.findall(r"^ +- alert: (\w+)$", RULES.read_text(encoding="utf-8"), re.MULTILINE)
HEADINGS = ["What it means", "Who is hurt", "Check", "Fix", "Prevent"]
# What stands for a variable of Grafana's where a query is tried without it.
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$instance": ".*"}


def _queries() -> list[str]:
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    queries += [annotation["expr"] for annotation in DASHBOARD["annotations"]["list"]]
    for variable, value in VARIABLES.items():
        queries = [query.replace(variable, value) for query in queries]
    return queries


def _promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = need_program("promtool", "prometheus")
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=30
    )


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A server that has loaded the rules and scraped the golden exposition."""
    program = need_program("prometheus", "prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    with scraping(program, folder, rules=RULES, exposition=GOLDEN) as server:
        yield server


def test_the_rules_are_valid() -> None:
    checked = _promtool("check", "rules", RULES)
    assert checked.returncode == 0, checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout


@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
def test_the_rules_fire_when_they_should_and_not_otherwise(path: Path) -> None:
    tested = _promtool("test", "rules", path)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_is_shown_to_fire_and_shown_not_to(alert: str) -> None:
    cases = "".join(path.read_text(encoding="utf-8") for path in RULE_TESTS)
    asked = re.findall(rf"alertname: {alert}\n( +exp_alerts:)?", cases)
    assert any(asked)
    assert not all(asked)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_a_runbook_with_every_section(alert: str) -> None:
    text = (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {alert}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


def test_every_runbook_is_that_of_an_alert() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == set(ALERTS)


def test_the_guide_lists_every_alert_with_its_severity(prometheus: Prometheus) -> None:
    guide = (ROOT / "docs/how-to/monitor.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(\S+\) \| (\w+) \|", guide, re.MULTILINE)
    severities = {rule["name"]: rule["labels"]["severity"] for rule in prometheus.rules()}
    assert rows == [(alert, severities[alert]) for alert in ALERTS]


def test_the_configuration_in_the_guide_is_valid(tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/monitor.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(.+?)^```$", guide, re.MULTILINE | re.DOTALL)
    path = tmp_path / "prometheus.yml"
    path.write_text(example, encoding="utf-8")
    checked = _promtool("check", "config", "--syntax-only", path)
    assert checked.returncode == 0, checked.stderr


def test_a_real_prometheus_evaluates_every_rule(prometheus: Prometheus) -> None:
    rules = prometheus.rules()
    assert sorted(rule["name"] for rule in rules) == sorted(ALERTS)
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []


def test_every_alert_says_what_whom_and_where_to_read_on(prometheus: Prometheus) -> None:
    for rule in prometheus.rules():
        told = rule["annotations"]
        assert rule["name"].startswith("Lastcall")
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert told["summary"]
        assert told["description"]
        assert told["runbook_url"] == f"docs/runbooks/{rule['name']}.md"
        assert told["dashboard_url"].split("?")[0] == f"/d/{DASHBOARD['uid']}"


def test_every_series_that_a_rule_reads_is_exposed(prometheus: Prometheus) -> None:
    read = {selector for rule in prometheus.rules() for selector in selectors(rule["query"])}
    assert [selector for selector in sorted(read) if not prometheus.find(selector)] == []


def test_every_series_that_the_dashboard_reads_is_exposed(prometheus: Prometheus) -> None:
    read = {selector for query in _queries() for selector in selectors(query)}
    assert [selector for selector in sorted(read) if not prometheus.find(selector)] == []


def test_every_query_of_the_dashboard_can_be_evaluated(prometheus: Prometheus) -> None:
    assert len(_queries()) > len(PANELS)
    for query in _queries():
        prometheus.find(query)


def test_every_query_of_the_dashboard_is_valid(tmp_path: Path) -> None:
    rules = [
        {"record": "tried:query", "expr": query, "labels": {"number": str(number)}}
        for number, query in enumerate(_queries())
    ]
    path = tmp_path / "queries.yml"
    # JSON is YAML.
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = _promtool("check", "rules", path)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_and_takes_the_chosen_data_source(
    panel: dict[str, Any],
) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert {source["uid"] for source in sources} == {"${datasource}"}


def test_the_dashboard_has_a_fixed_uid_and_no_ids() -> None:
    assert DASHBOARD["uid"] == "lastcall"
    assert "id" not in DASHBOARD
    assert [panel["title"] for panel in DASHBOARD["panels"] if "id" in panel] == []
