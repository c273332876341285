"""The fake cluster behind the fake API server: its objects, its rules, and what each call does."""

from __future__ import annotations

from collections.abc import Callable

from support.kube_api import documents, events, nodes, pods, reviews
from support.kube_api.admission import Policy
from support.kube_api.asking import Asking
from support.kube_api.controllers import Kubelet, control_nodes
from support.kube_api.objects import timestamp
from support.kube_api.statuses import not_found
from support.kube_api.store import Object, Store


class Cluster:
    """Answers calls that are allowed; see :class:`~support.kube_api.server.FakeKubeApi`."""

    def __init__(self, ends_after_seconds: float | None, *, with_controllers: bool) -> None:
        self.store = Store()
        self.kubelet = Kubelet(self.store, ends_after_seconds)
        self.denied: set[str] = set()
        self.policies: list[Policy] = []
        self.terminating: set[str] = set()
        self._with_controllers = with_controllers
        store = self.store
        self._calls: dict[tuple[str, str], Callable[[Asking], Object]] = {
            ("get", "nodes"): lambda asking: nodes.get_node(store, asking),
            ("patch", "nodes"): self._patch_node,
            ("patch", "nodes/status"): self._patch_node,
            ("get", "pods"): lambda asking: pods.get_pod(store, asking),
            ("list", "pods"): lambda asking: pods.list_pods(store, asking),
            ("delete", "pods"): self._delete_pod,
            ("create", "pods/eviction"): self._evict_pod,
            ("patch", "pods/status"): lambda asking: pods.patch_pod_status(
                store, self.policies, asking
            ),
            ("create", "events"): lambda asking: events.create_event(
                store, self.terminating, asking
            ),
            ("patch", "events"): lambda asking: events.patch_event(store, asking),
            ("create", "selfsubjectaccessreviews"): lambda asking: reviews.review_access(
                asking, self.denied
            ),
            ("create", "selfsubjectrulesreviews"): reviews.review_rules,
            ("create", "selfsubjectreviews"): lambda asking: reviews.review_identity(
                asking, timestamp()
            ),
            ("create", "validatingadmissionpolicies"): lambda asking: documents.create_policy(
                store, asking
            ),
            ("create", "serviceaccounts/token"): documents.request_token,
        }

    def answer(self, asking: Asking) -> Object:
        """Do what is asked and return the answer's body.

        Raises:
            ApiError: it cannot be done.
        """
        call = self._calls.get((asking.verb, asking.target.full))
        if call is not None:
            return call(asking)
        if asking.verb == "get":
            return documents.get_stored(self.store, asking)
        raise not_found(asking.target.resource, asking.target.name)

    def _patch_node(self, asking: Asking) -> Object:
        node = nodes.patch_node(self.store, self.policies, asking)
        if self._with_controllers and not asking.dry_run:
            # The answer is what was written, before anybody reacts to it.
            control_nodes(self.store, node, self.kubelet)
        return node

    def _evict_pod(self, asking: Asking) -> Object:
        return pods.evict_pod(
            self.store, self.policies, self.terminating, asking, self.kubelet.on_deleting
        )

    def _delete_pod(self, asking: Asking) -> Object:
        return pods.delete_pod(self.store, self.policies, asking, self.kubelet.on_deleting)
