"""Whether disruption budgets let a pod be evicted."""

from __future__ import annotations

from support.kube_api.objects import timestamp
from support.kube_api.statuses import over_budget, two_budgets
from support.kube_api.store import Object, Store


def spend(store: Store, pod: Object, *, dry_run: bool) -> None:
    """Take one disruption from the pod's budget, if it has one.

    Raises:
        ApiError: there is none to take, or more than one budget.
    """
    if _ignores_budgets(pod):
        return
    found = [budget for budget in store.all("poddisruptionbudgets") if _selects(budget, pod)]
    if not found:
        return
    if len(found) > 1:
        raise two_budgets()
    budget = found[0]
    if not _is_ready(pod) and _lets_unready_go(budget):
        return
    _check(budget)
    if not dry_run:
        _take(store, budget, pod["metadata"]["name"])


def _ignores_budgets(pod: Object) -> bool:
    is_over = pod["status"]["phase"] in {"Pending", "Succeeded", "Failed"}
    return is_over or "deletionTimestamp" in pod["metadata"]


def _selects(budget: Object, pod: Object) -> bool:
    labels = pod["metadata"].get("labels", {})
    wanted = budget["spec"]["selector"]["matchLabels"]
    same_namespace = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same_namespace and all(labels.get(key) == value for key, value in wanted.items())


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _lets_unready_go(budget: Object) -> bool:
    status = budget["status"]
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


def _check(budget: Object) -> None:
    name, status = budget["metadata"]["name"], budget["status"]
    if status["observedGeneration"] < budget["metadata"]["generation"]:
        raise over_budget(
            f"The disruption budget {name} is still being processed by the server.", 10
        )
    if status["disruptionsAllowed"] > 0:
        return
    condition = status["conditions"][0]
    if condition["reason"] == "SyncFailed" and condition["message"]:
        why = (
            f"does not allow evicting pods currently because it failed sync: {condition['message']}"
        )
    elif status["currentHealthy"] <= status["desiredHealthy"]:
        why = (
            f"needs {status['desiredHealthy']} healthy pods "
            f"and has {status['currentHealthy']} currently"
        )
    else:
        why = "does not allow evicting pods currently"
    raise over_budget(f"The disruption budget {name} {why}")


def _take(store: Store, budget: Object, pod_name: str) -> None:
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[pod_name] = timestamp()
    if status["disruptionsAllowed"] == 0:
        status["conditions"][0] |= {"status": "False", "reason": "InsufficientPods"}
    store.put("poddisruptionbudgets", budget)
