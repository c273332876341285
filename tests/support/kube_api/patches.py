"""The three kinds of patch, as far as a drain sends them."""

from __future__ import annotations

import copy
from typing import Any

from support.kube_api.statuses import patch_test_failed, unsupported_media_type
from support.kube_api.store import Object

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"


def patched(target: Object, patch: Any, content_type: str) -> Object:
    """Return a copy with a patch applied.

    Raises:
        ApiError: another content type, or a JSON patch that does not fit.
    """
    result = copy.deepcopy(target)
    if content_type == JSON:
        return _json_patched(result, patch)
    if content_type not in {STRATEGIC, MERGE}:
        raise unsupported_media_type()
    return _merged(result, patch, is_strategic=content_type == STRATEGIC)


def _merged(target: Object, patch: Object, *, is_strategic: bool) -> Object:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            below = target.get(key)
            target[key] = _merged(
                below if isinstance(below, dict) else {}, value, is_strategic=is_strategic
            )
        elif is_strategic and key == "conditions":
            target[key] = _conditions(target.get(key, []), value, is_strategic=is_strategic)
        else:
            # Taints, too: the server takes the list as a whole.
            target[key] = copy.deepcopy(value)
    return target


def _conditions(old: list[Object], new: list[Object], *, is_strategic: bool) -> list[Object]:
    """Return conditions merged by their type; those that are new come first."""
    by_type = {condition["type"]: condition for condition in old}
    added = [copy.deepcopy(c) for c in new if c["type"] not in by_type]
    for condition in new:
        if condition["type"] in by_type:
            _merged(by_type[condition["type"]], condition, is_strategic=is_strategic)
    return added + old


def _json_patched(target: Object, operations: list[Object]) -> Object:
    for operation in operations:
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        holder: Any = target
        for part in parents:
            holder = _child(holder, part)
        _apply(holder, last, operation)
    return target


def _apply(holder: Any, last: str, operation: Object) -> None:
    op = operation["op"]
    if op == "test":
        if _child(holder, last) != operation["value"]:
            raise patch_test_failed()
    elif op == "remove":
        _child(holder, last)
        holder.pop(int(last) if isinstance(holder, list) else last)
    elif op == "replace":
        _child(holder, last)
        holder[int(last) if isinstance(holder, list) else last] = operation["value"]
    elif op == "add" and isinstance(holder, list):
        holder.insert(len(holder) if last == "-" else int(last), operation["value"])
    elif op == "add" and isinstance(holder, dict):
        holder[last] = operation["value"]
    else:
        raise patch_test_failed()


def _child(holder: Any, part: str) -> Any:
    try:
        return holder[int(part) if isinstance(holder, list) else part]
    except (KeyError, IndexError, ValueError, TypeError):
        raise patch_test_failed() from None
