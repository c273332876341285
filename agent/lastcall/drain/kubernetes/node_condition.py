"""Conditions on a node, and the one that says that an interruption has been announced. Pure.

A condition stops nothing by itself; people, dashboards and remedy controllers read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from lastcall.drain.kubernetes.node_marks import Node, marks_of, time_text

INTERRUPTION = "InterruptionNotice"
"""The type of the condition that stands ``True`` while the node is cordoned for a notice."""

NO_NOTICE = "NoNotice"
CORDON_LIFTED = "CordonLifted"

_LIFTED = ("somebody lifted the cordon; notice ", " stands")

Condition = Mapping[str, Any]
"""One entry of a node's ``status.conditions``."""


def node_condition(
    type_: str,
    status: bool | None,
    reason: str,
    message: str,
    *,
    at_unix: float,
    before: Condition | None = None,
) -> dict[str, str]:
    """Return a condition for a node's status.

    Args:
        type_: its name, in CamelCase.
        status: ``None`` where it cannot be told.
        reason: one word in CamelCase.
        message: for people.
        at_unix: now, Unix seconds.
        before: the condition as it stands; while its status stays, so does the time since when.
    """
    text = {True: "True", False: "False", None: "Unknown"}[status]
    now = time_text(at_unix)
    since = (before or {}).get("lastTransitionTime") if _get(before, "status") == text else None
    return {
        "type": type_,
        "status": text,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since if isinstance(since, str) else now,
    }


def find_condition(node: Node, type_: str) -> Condition | None:
    """Return a node's condition of a type; ``None`` where it has none."""
    status = node.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for condition in conditions if isinstance(conditions, list) else []:
        if isinstance(condition, Mapping) and condition.get("type") == type_:
            return condition
    return None


def says_the_same(one: Condition | None, other: Condition) -> bool:
    """Return whether two conditions differ in nothing but their times."""
    return all(_get(one, key) == other[key] for key in ("status", "reason", "message"))


def interruption_condition(node: Node, at_unix: float, lifted: str = "") -> dict[str, str] | None:
    """Return what the condition of a node should be, by the marks that the node itself carries.

    Args:
        node: the node.
        at_unix: now, Unix seconds.
        lifted: the notice that stands though somebody lifted the cordon for it; empty for none.

    Returns:
        The condition to set; ``None`` where what stands is right, or nothing stands and nothing
        has been announced.
    """
    found, marks = find_condition(node, INTERRUPTION), marks_of(node)
    if marks.is_our_cordon:
        reason = camel_case(marks.kind) or "Notice"
        message = f"notice {marks.notice_id}"
        if marks.deadline:
            message += f"; the node goes at {marks.deadline}"
        wanted = _interruption(True, reason, message, at_unix=at_unix, before=found)
    elif lifted:
        message = lifted.join(_LIFTED)
        wanted = _interruption(False, CORDON_LIFTED, message, at_unix=at_unix, before=found)
    elif found is not None and (found.get("status") != "False" or lifted_notice(node)):
        wanted = _interruption(False, NO_NOTICE, "no notice stands", at_unix=at_unix, before=found)
    else:
        return None
    return None if says_the_same(found, wanted) else wanted


def lifted_notice(node: Node) -> str:
    """Return the notice that stands though its cordon was lifted, by the condition; or nothing."""
    found, (before, after) = find_condition(node, INTERRUPTION), _LIFTED
    message = _get(found, "message")
    if _get(found, "reason") != CORDON_LIFTED or not isinstance(message, str):
        return ""
    return message.removeprefix(before).removesuffix(after)


def camel_case(kind: str) -> str:
    """Return a notice's kind as one word: ``gpu_fault`` becomes ``GpuFault``."""
    return "".join(part.capitalize() for part in kind.split("_"))


_interruption = partial(node_condition, INTERRUPTION)


def _get(condition: Condition | None, key: str) -> object:
    return None if condition is None else condition.get(key)
