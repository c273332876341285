"""XIDs that come in floods: all are counted, few are told, and little is kept."""

from hypothesis import given
from hypothesis import strategies as st

from lastcall.gpu.probe.bursts import TOGETHER_SECONDS, Burst, Bursts

GPU = "GPU-1"


def test_the_first_is_told_at_once_and_the_same_again_when_its_second_is_over() -> None:
    bursts = Bursts()

    assert bursts.add(GPU, 95, 10.0) == Burst(GPU, 95, 1)
    assert bursts.add(GPU, 95, 10.2) is None
    assert bursts.add(GPU, 95, 10.9) is None
    assert bursts.over(10.9) == []
    assert bursts.over(11.0) == [Burst(GPU, 95, 2)]


def test_another_xid_or_another_gpu_does_not_wait() -> None:
    bursts = Bursts()
    bursts.add(GPU, 45, 10.0)

    assert bursts.add(GPU, 62, 10.1) == Burst(GPU, 62, 1)
    assert bursts.add("GPU-2", 45, 10.1) == Burst("GPU-2", 45, 1)


def test_after_a_quiet_second_the_next_is_told_at_once_again() -> None:
    bursts = Bursts()
    bursts.add(GPU, 95, 10.0)

    assert bursts.over(11.5) == []
    assert bursts.wait_seconds(11.5) is None
    assert bursts.add(GPU, 95, 11.6) == Burst(GPU, 95, 1)


def test_it_says_how_long_to_wait_for_the_next_to_tell() -> None:
    bursts = Bursts()

    assert bursts.wait_seconds(10.0) is None
    bursts.add(GPU, 95, 10.0)
    assert bursts.wait_seconds(10.25) == 0.75
    assert bursts.wait_seconds(12.0) == 0.0


def test_what_is_left_is_told_at_the_end() -> None:
    bursts = Bursts()
    bursts.add(GPU, 95, 10.0)
    bursts.add(GPU, 95, 10.1)

    assert bursts.rest() == [Burst(GPU, 95, 1)]
    assert bursts.rest() == []
    assert bursts.wait_seconds(10.2) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["GPU-1", "GPU-2"]),
            st.sampled_from([13, 79, 95]),
            st.floats(0, 0.7),
        ),
        max_size=60,
    )
)
def test_none_is_lost_and_none_is_told_twice_nor_late(
    xids: list[tuple[str, int, float]],
) -> None:
    bursts, now, told = Bursts(), 0.0, 0
    for uuid, xid, gap in xids:
        now += gap
        told += sum(burst.count for burst in bursts.over(now))
        first = bursts.add(uuid, xid, now)
        told += first.count if first else 0
        assert (bursts.wait_seconds(now) or 0.0) <= TOGETHER_SECONDS + 1e-9

    told += sum(burst.count for burst in bursts.rest())
    assert told == len(xids)
