"""Exchanges recorded from a real API server, and what of an answer is the same each time."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parents[2] / "transcripts" / "kubernetes"

HEADERS_THAT_MATTER = ("Content-Type", "Retry-After", "Warning")

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_TIMES = re.compile(r"<(\d+) times (.)>")
_DIFFERENT_EACH_TIME = {"resourceVersion", "continue", "storageVersionHash", "token"}


@dataclass(frozen=True)
class Transcript:
    """One recorded exchange.

    Attributes:
        name: of the file.
        caller: who asked, in the recording's words.
        method: the verb; empty where only a summary was recorded.
        path: with the query.
        request: content type, accept and body of the request.
        response: status, headers and body of the answer.
    """

    name: str
    caller: str
    method: str
    path: str
    request: dict[str, Any]
    response: dict[str, Any]


def read_transcripts() -> dict[str, Transcript]:
    """Return all, by name."""
    found = {}
    for file in sorted(DIRECTORY.glob("*.json")):
        content = json.loads(file.read_text("utf-8"))
        request = content.get("request", {})
        found[file.stem] = Transcript(
            file.stem,
            content.get("caller", "admin"),
            request.get("method", ""),
            request.get("path", ""),
            request,
            content.get("response", {}),
        )
    return found


def sent(recorded: Transcript) -> Any:
    """Return the body of the request; a long run of one letter is written short in the file."""
    text = json.dumps(recorded.request.get("body"))
    return json.loads(_TIMES.sub(lambda found: found[2] * int(found[1]), text))


def lasting(value: Any, key: str = "") -> Any:
    """Return an answer's body without what differs each time: UIDs, versions, times.

    Who wrote which field (``managedFields``) is left out: nothing here reads it.
    """
    if isinstance(value, dict):
        return {k: lasting(v, k) for k, v in value.items() if k != "managedFields"}
    if isinstance(value, list):
        return [lasting(item, key) for item in value]
    if isinstance(value, str):
        if key in _DIFFERENT_EACH_TIME:
            return f"<{key}>"
        return _TIME.sub("<time>", _UUID.sub("<uid>", value))
    return value
