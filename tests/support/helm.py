"""The chart as the real helm renders it, given values and a cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from support.needs import leave_out

CHART = Path(__file__).resolve().parents[2] / "helm/lastcall"

Object = dict[str, Any]
Values = Mapping[str, Any]

_SEPARATOR = re.compile(r"^---$", re.MULTILINE)


def helm(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run helm, or leave the test out where it is not installed."""
    program = shutil.which("helm")
    if program is None:
        leave_out("needs helm: tools/kube-tools DIRECTORY, and the directory on PATH")
    return subprocess.run(
        [program, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=30
    )


@dataclass(frozen=True)
class Render:
    """What the chart makes.

    Attributes:
        objects: in the order of the output.
    """

    objects: tuple[Object, ...]

    def all(self, kind: str) -> list[Object]:
        """Return the objects of a kind."""
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind: str, name: str = "lastcall") -> Object:
        """Return the object of that kind and name."""
        (found,) = (one for one in self.all(kind) if one["metadata"]["name"] == name)
        return found

    @property
    def pod(self) -> Object:
        """The spec of the agent's pod."""
        spec: Object = self.one("DaemonSet")["spec"]["template"]["spec"]
        return spec

    @property
    def agent(self) -> Object:
        """The agent's container."""
        (container,) = self.pod["containers"]
        assert container["name"] == "agent"
        return dict(container)

    @property
    def rights(self) -> frozenset[str]:
        """What the role that is bound to the agent's account allows, such as ``patch nodes``."""
        binding = self.one("ClusterRoleBinding")
        (subject,) = binding["subjects"]
        namespace = self.one("DaemonSet")["metadata"]["namespace"]
        assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", namespace)
        assert subject["name"] == self.pod["serviceAccountName"]
        rules = self.one("ClusterRole", binding["roleRef"]["name"])["rules"]
        assert {tuple(rule["apiGroups"]) for rule in rules} == {("",)}
        return frozenset(
            f"{verb} {resource}"
            for rule in rules
            for verb in rule["verbs"]
            for resource in rule["resources"]
        )

    @property
    def toml(self) -> str:
        """The agent's configuration file."""
        return str(self.one("ConfigMap")["data"]["lastcall.toml"])


def render(
    values: Values | None = None,
    *,
    files: Sequence[Path] = (),
    namespace: str = "lastcall",
    release: str = "lastcall",
    kubernetes: str = "1.36.0",
    chart: Path = CHART,
) -> Render:
    """Return what the chart makes of values.

    Args:
        values: on top of the chart's own, and of those in the files.
        files: files of values.
        namespace: that it is installed in.
        release: its name.
        kubernetes: the cluster's version.
        chart: the chart, or a package of it.
    """
    flags = [flag for file in files for flag in ("--values", str(file))]
    done = _template(chart, release, namespace, kubernetes, values or {}, *flags)
    assert done.returncode == 0, done.stderr
    documents = (part for part in _SEPARATOR.split(done.stdout) if part.strip())
    decoded = (msgspec.yaml.decode(part.encode()) for part in documents)
    return Render(tuple(one for one in decoded if one is not None))


def notes(values: Values) -> str:
    """Return what helm tells those who install the chart with values; no cluster is asked."""
    how = ("--namespace", "lastcall", "--dry-run=client", "--values", "-")
    done = helm("install", "lastcall", CHART, *how, stdin=json.dumps(values))
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("\nNOTES:\n")[2]


def refusal(values: Values, *, namespace: str = "lastcall", kubernetes: str = "1.36.0") -> str:
    """Return what helm says against values that it must not take."""
    done = _template(CHART, "lastcall", namespace, kubernetes, values)
    assert done.returncode != 0, done.stdout
    return done.stderr


def _template(
    chart: Path, release: str, namespace: str, kubernetes: str, values: Values, /, *flags: str
) -> subprocess.CompletedProcess[str]:
    cluster = ("--namespace", namespace, "--kube-version", kubernetes)
    # JSON is YAML.
    given = json.dumps(values)
    return helm("template", release, chart, *cluster, *flags, "--values", "-", stdin=given)
