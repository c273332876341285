"""No label value is unbounded, whoever chooses it."""

from __future__ import annotations

import pytest

from lastcall.core.model import Kind
from lastcall.record.metric_labels import JOB_LENGTH, JOB_LIMIT, OTHER, UNNAMED, JobLabels, Pairs


def test_a_job_keeps_its_name() -> None:
    assert JobLabels().label("llama-ft") == "llama-ft"


@pytest.mark.parametrize(
    ("job", "label"),
    [
        ("", UNNAMED),
        ("  ", UNNAMED),
        ("a\nb\x1b[31m\u2028c", "a_b_[31m_c"),
        ("größe 模型", "größe 模型"),
        ("x" * 500, "x" * JOB_LENGTH),
    ],
)
def test_a_name_becomes_printable_and_short(job: str, label: str) -> None:
    assert JobLabels().label(job) == label


def test_past_the_limit_jobs_share_a_label_and_the_first_ones_keep_theirs() -> None:
    labels = JobLabels()
    own = [labels.label(f"job-{number}") for number in range(JOB_LIMIT)]

    assert len(set(own)) == JOB_LIMIT
    assert {labels.label(f"late-{number}") for number in range(1000)} == {OTHER}
    assert labels.label("job-0") == "job-0"


def test_a_known_source_announces_what_it_can() -> None:
    pairs = Pairs()

    assert ("aws", "rebalance") in pairs.add("aws")
    assert ("aws", "gpu_fault") not in list(pairs)


def test_a_source_that_nobody_listed_may_announce_anything_and_is_new_once() -> None:
    pairs = Pairs()

    assert pairs.add("newcloud") == [("newcloud", kind.value) for kind in Kind]
    assert pairs.add("newcloud") == []
