"""Which rights a drain needs, by how it is done."""

from __future__ import annotations

import pytest

from lastcall.drain.kubernetes.rights import WATCH_NODE, needed

ALWAYS = {
    "get nodes",
    "watch nodes",
    "patch nodes",
    "patch nodes/status",
    "get pods",
    "list pods",
    "watch pods",
    "patch pods/status",
    "create events",
}


def names(**settings):
    return [str(right) for right in needed(**settings)]


@pytest.mark.parametrize(
    ("method", "force", "removal"),
    [
        ("evict", "all", {"create pods/eviction", "delete pods"}),
        ("evict", "training", {"create pods/eviction", "delete pods"}),
        ("evict", "none", {"create pods/eviction"}),
        ("delete", "all", {"delete pods"}),
        ("delete", "none", {"delete pods"}),
    ],
)
def test_the_way_pods_are_removed_decides_what_is_needed_beside_the_rest(method, force, removal):
    rights = names(method=method, force=force)

    assert set(rights) == ALWAYS | removal
    assert len(rights) == len(set(rights))


def test_the_right_that_a_drain_can_do_without_is_one_of_them():
    assert WATCH_NODE in needed(method="evict", force="all")


def test_a_node_that_is_not_watched_needs_no_right_to_be():
    rights = names(method="evict", force="all", watches_node=False)

    assert "watch nodes" not in rights
    assert {"get nodes", "patch nodes"} <= set(rights)
