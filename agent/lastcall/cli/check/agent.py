"""Whether an agent runs behind the configured socket, and how it differs from what is set here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastcall._version import __version__
from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.cli.check.seen_agent import Presence
from lastcall.cli.terminal import duration

CHECK = "agent"


async def check_agent(subject: Subject, found: Findings) -> None:
    """Add what was seen of the agent."""
    agent, path = subject.agent, subject.loaded.config.socket.path
    match agent.presence:
        case Presence.ABSENT:
            found.note(
                CHECK,
                f"none runs: {agent.detail}",
                "start it: systemctl start lastcall, or lastcall run; if it listens elsewhere, set "
                "LASTCALL_SOCKET or --set socket.path=…, as it was given",
            )
        case Presence.SILENT:
            found.problem(
                CHECK,
                f"what listens at {path} does not answer: {agent.detail}",
                "look at the agent's log, and restart it",
            )
        case Presence.CLOSED:
            found.warning(
                CHECK,
                f"this user may not connect to {path}: {agent.detail}",
                "set socket.mode or socket.group so that the users who train may, and let them "
                "enter its directory",
            )
        case Presence.PRIVATE:
            found.note(
                CHECK, f"one listens at {path}: {agent.detail}", "run the check as the agent's user"
            )
        case Presence.SHOWN:
            _say(subject, found)


def _say(subject: Subject, found: Findings) -> None:
    view, config = subject.agent.view, subject.loaded.config
    about: Mapping[str, Any] = view["agent"]
    version, node, journal = (about.get(key) for key in ("version", "node_name", "journal"))
    found.ok(CHECK, ", ".join(_facts(view)))
    if version != __version__:
        found.warning(
            CHECK, f"it is version {version}, this command is {__version__}", "restart the agent"
        )
    if node != config.node_name:
        found.warning(
            CHECK,
            f"it calls this node {node!r}, the configuration that was read {config.node_name!r}",
            "check with the agent's own --config and environment, or restart the agent",
        )
    differences = _differences(subject)
    if differences:
        theirs, ours = zip(*differences, strict=True)
        found.warning(
            CHECK,
            f"the running agent uses {' and '.join(theirs)}, this command reads "
            f"{' and '.join(ours)}",
            "give check the same --config, --set and environment, or restart the agent",
        )
    if journal != "ok":
        found.problem(
            CHECK,
            f"its journal is not written: {journal}",
            "mend the disk; see the runbook LastcallJournalNotWritten",
        )


def _differences(subject: Subject) -> list[tuple[str, str]]:
    """Return each setting that the agent uses, and what was read for it, where they differ."""
    about, config = subject.agent.about, subject.loaded.config
    settings: list[tuple[str, object, object]] = [
        ("mode", about.get("mode"), config.mode),
        ("state_dir", about.get("state_dir"), config.state_dir),
        ("http.listen", about.get("http_listen"), config.http.listen),
    ]
    view = subject.agent.view
    if "auto" not in config.notices.provider and view.get("provider_detail"):
        theirs = [str(name) for name in view.get("providers", ())]
        settings.append(("notices.provider", theirs, list(config.notices.provider)))
    return [
        (f"{name}={_shown(theirs)}", _shown(ours))
        for name, theirs, ours in settings
        if theirs is not None and theirs != ours
    ]


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return str(value) or '""'


def _facts(view: Mapping[str, Any]) -> list[str]:
    about = view["agent"]
    facts = [f"version {about.get('version')} runs"]
    up_seconds = about.get("uptime_seconds")
    if isinstance(up_seconds, int | float):
        facts.append(f"up {duration(up_seconds)}")
    facts.append(f"mode {about.get('mode')}")
    summary = view.get("summary")
    if isinstance(summary, dict):
        facts.append(_counted(summary.get("clients_connected"), "client"))
        facts.append(_counted(summary.get("notices_open"), "notice") + " open")
    return facts


def _counted(count: object, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
