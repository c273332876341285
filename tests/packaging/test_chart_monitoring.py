"""What the chart tells Prometheus and Grafana about the agents."""

from __future__ import annotations

import json
import subprocess

import msgspec
import pytest

from support.helm import CHART, render
from support.needs import need_program

# Copies of what stands in monitoring/, which test_chart_files.py sees to.
RULES = msgspec.yaml.decode((CHART / "files/alerts.yml").read_bytes())
ALERTS = [one["alert"] for group in RULES["groups"] for one in group["rules"]]
DASHBOARD = (CHART / "files/dashboard.json").read_text(encoding="utf-8")
LABELS = {"labels": {"release": "prometheus"}}
MORE = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}


def rules(**values):
    return render({"prometheusRule": {"enabled": True, **values}}).one("PrometheusRule")


def alerts(rule):
    return [one for group in rule["spec"]["groups"] for one in group["rules"]]


def test_a_pod_monitor_scrapes_the_agents_as_job_lastcall_by_node_and_often():
    rendered = render({"podMonitor": {"enabled": True, **LABELS}})

    monitor = rendered.one("PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    pod = rendered.one("DaemonSet")["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == "lastcall"
    assert monitor["spec"]["podMetricsEndpoints"] == [
        {
            "port": rendered.agent["ports"][0]["name"],
            "path": "/metrics",
            "interval": "5s",
            "scrapeTimeout": "4s",
            "relabelings": [
                {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"}
            ],
        }
    ]


def test_a_service_monitor_scrapes_them_likewise():
    rendered = render({"serviceMonitor": {"enabled": True, **LABELS}})

    monitor, service = rendered.one("ServiceMonitor"), rendered.one("Service")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == "lastcall"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == service["spec"]["ports"][0]["name"]
    assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("5s", "4s")


@pytest.mark.parametrize(
    ("values", "kind", "endpoints"),
    [
        ("podMonitor", "PodMonitor", "podMetricsEndpoints"),
        ("serviceMonitor", "ServiceMonitor", "endpoints"),
    ],
)
def test_relabelings_of_one_s_own_come_after_the_chart_s(values, kind, endpoints):
    given = {"enabled": True, "relabelings": [MORE], "metricRelabelings": [MORE]}

    (endpoint,) = render({values: given}).one(kind)["spec"][endpoints]

    assert endpoint["relabelings"][1:] == [MORE]
    assert endpoint["metricRelabelings"] == [MORE]


def test_the_rules_are_all_there_and_their_templates_untouched():
    rule = rules(**LABELS)

    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == RULES


def test_the_rules_are_what_prometheus_takes(tmp_path):
    promtool = need_program("promtool", "prometheus")
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps(rules()["spec"]), encoding="utf-8")

    checked = subprocess.run(
        [promtool, "check", "rules", path], capture_output=True, text=True, check=False, timeout=30
    )

    assert checked.returncode == 0, checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout


@pytest.mark.parametrize("slash", ["", "/"])
def test_addresses_of_one_s_own_go_before_runbook_and_dashboard(slash):
    code, grafana = f"https://code.example/lastcall{slash}", f"https://grafana.example{slash}"
    rule = rules(runbookUrlPrefix=code, dashboardUrlPrefix=grafana)

    for one in alerts(rule):
        told = one["annotations"]
        runbook = f"https://code.example/lastcall/docs/runbooks/{one['alert']}.md"
        assert told["runbook_url"] == runbook
        assert told["dashboard_url"].startswith("https://grafana.example/d/lastcall")


def test_without_addresses_they_stay_as_they_are():
    told = alerts(rules())[0]["annotations"]

    assert told["runbook_url"] == f"docs/runbooks/{ALERTS[0]}.md"
    assert told["dashboard_url"].startswith("/d/lastcall")


def test_the_dashboard_is_found_by_grafana_s_sidecar():
    rendered = render({"dashboard": {"enabled": True, "annotations": {"grafana_folder": "GPU"}}})

    found = rendered.one("ConfigMap", "lastcall-dashboard")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "GPU"}
    assert found["data"]["lastcall.json"] == DASHBOARD
