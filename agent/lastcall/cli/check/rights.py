"""Checks what the agent may do on Kubernetes, and says which rule would let it."""

from __future__ import annotations

from lastcall.cli.check.findings import Findings
from lastcall.config.schema import Config
from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.reviews import Right
from lastcall.drain.kubernetes.rights import DRY_RUN, WATCH_NODE, RightFinding, needed, review

CHECK = "rights"


async def check_rights(
    api: KubeApi, config: Config, found: Findings, timeout_seconds: float
) -> None:
    """Add each right that is missing, and whether admission lets the cordon pass.

    Args:
        api: the API server.
        config: the configuration in effect, which decides what is needed.
        found: takes what is found.
        timeout_seconds: for all of it.
    """
    settings = config.drain.kubernetes
    rights = needed(method=settings.method, force=settings.force)
    reviewed = await review(api, config.node_name, rights, timeout_seconds=timeout_seconds)
    for right, one in zip((*rights, None), reviewed, strict=True):
        if one.allowed is False:
            _say_missing(one, right, config, found)
    _say_unknown([one for one in reviewed if one.allowed is None], found)
    if all(one.allowed for one in reviewed):
        found.ok(CHECK, f"all {len(rights)} are granted, and admission lets the cordon pass")


def _say_missing(one: RightFinding, right: Right | None, config: Config, found: Findings) -> None:
    what = f"missing: {one.right}: {one.detail}"
    if right is None:
        what = f"the node may not be cordoned: {one.detail}"
    remedy = _remedy(right, config)
    if config.mode == "observe":
        found.warning(CHECK, f"{what}; not used while mode is observe", remedy)
    elif one.right == str(WATCH_NODE):
        found.warning(CHECK, f"{what}; without it the node is read every 5 s", remedy)
    else:
        found.problem(CHECK, what, remedy)


def _remedy(right: Right | None, config: Config) -> str:
    if right is None:
        return (
            "if a right is missing too, grant it first; else allow it in the admission policy or "
            "webhook that is named"
        )
    resource = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
    grant = (
        f'grant it to the agent\'s ClusterRole: apiGroups: ["{right.group}"], '
        f'resources: ["{resource}"], verbs: ["{right.verb}"]'
    )
    return grant + _ALTERNATIVES.get((str(right), config.drain.kubernetes.method), "")


_ALTERNATIVES = {
    ("create pods/eviction", "evict"): ', or set drain.kubernetes.method = "delete"',
    ("delete pods", "evict"): ', or set drain.kubernetes.force = "none"',
}
"""What can be set to do without a right, by the right and the method."""


def _say_unknown(unknown: list[RightFinding], found: Findings) -> None:
    by_detail: dict[str, list[str]] = {}
    for one in unknown:
        by_detail.setdefault(one.detail, []).append(one.right)
    for detail, rights in by_detail.items():
        names = ", ".join("the admission dry run" if name == DRY_RUN else name for name in rights)
        found.warning(
            CHECK, f"could not be found out: {names}: {detail}", "check again when the API answers"
        )
