"""What an EC2 instance is: asked for once, and again as long as anything of it is unknown."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from lastcall.sources.http import MetadataError
from lastcall.sources.imds import Imds
from lastcall.sources.pacing import Pace

Facts = tuple[tuple[str, str], ...]

LONGEST_WAIT_SECONDS = 60.0

DOCUMENT = "/latest/dynamic/instance-identity/document"
_VALUES = "/latest/meta-data/"

# A fact, its name in the identity document, and its path on instances that have no document.
_SOURCES = (
    ("instance_id", "instanceId", "instance-id"),
    ("instance_type", "instanceType", "instance-type"),
    ("region", "region", "placement/region"),
    ("zone", "availabilityZone", "placement/availability-zone"),
    ("lifecycle", "", "instance-life-cycle"),
)

_VALUE_FORM = re.compile(r"[A-Za-z0-9._:-]{1,128}")


async def learn_identity(imds: Imds) -> AsyncIterator[Facts]:
    """Yield what is learned as it is learned; end once nothing is missing.

    An answer that is empty, or no such value, leaves a fact unknown: it is asked for again.
    """
    known: dict[str, str] = {}
    pace = Pace(1.0, LONGEST_WAIT_SECONDS)
    while True:
        learned = await _ask(imds, [source for source in _SOURCES if source[0] not in known])
        if learned:
            known |= learned
            yield tuple(learned.items())
        if len(known) == len(_SOURCES):
            return
        await asyncio.sleep(pace.after_failure())


async def _ask(imds: Imds, missing: list[tuple[str, str, str]]) -> dict[str, str]:
    learned: dict[str, str] = {}
    try:
        document = await _document(imds)
        for fact, field, path in missing:
            if value := _value(document.get(field)) or await _plain(imds, path):
                learned[fact] = value
    except MetadataError:
        # The looks for notices meet the same trouble and report it.
        return learned
    return learned


async def _document(imds: Imds) -> dict[str, object]:
    answer = await imds.get(DOCUMENT)
    try:
        content = answer.json() if answer.status == 200 else None
    except MetadataError:
        content = None
    return content if isinstance(content, dict) else {}


async def _plain(imds: Imds, path: str) -> str:
    answer = await imds.get(_VALUES + path)
    return _value(answer.text()) if answer.status == 200 else ""


def _value(content: object) -> str:
    text = content.strip() if isinstance(content, str) else ""
    return text if _VALUE_FORM.fullmatch(text) else ""
