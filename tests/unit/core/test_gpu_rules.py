"""The rules on sampled signals, one by one, and how a site changes them."""

from __future__ import annotations

import pytest

from lastcall.core.gpu.model import Health, Recovery, WatchState
from lastcall.core.gpu.signal_rules import SIGNALS
from support.judged_gpus import PCIE, SXM, Watched

SXM2 = "Tesla V100-SXM2-32GB"
SLOW_LINK = {"pcie_generation": 1, "pcie_generation_max": 5, "pcie_width": 16, "pcie_width_max": 16}


@pytest.mark.parametrize(
    ("name", "values", "health", "recovery"),
    [
        ("sram_ecc_threshold", {"sram_ecc_threshold": 1}, Health.FAULTY, Recovery.REPLACE),
        ("row_remap_pending", {"remap_pending": 1}, Health.DEGRADED, Recovery.RESET_WHEN_IDLE),
        ("row_remap_failed", {"remap_failed": 1}, Health.FAULTY, Recovery.REPLACE),
        ("row_remap_uncorrected", {"remapped_uncorrected": 512}, Health.FAULTY, Recovery.REPLACE),
        ("retired_pages", {"retired_sbe": 60, "retired_dbe": 3}, Health.FAULTY, Recovery.REPLACE),
        (
            "retired_pages_pending",
            {"retired_pending": 1},
            Health.DEGRADED,
            Recovery.RESET_WHEN_IDLE,
        ),
    ],
)
def test_a_state_speaks_against_a_gpu_at_once(
    name: str, values: dict[str, float], health: Health, recovery: Recovery
) -> None:
    node = Watched()
    node.look(**values)

    assert (node.health(), node.reasons(), node.verdict().recovery) == (health, (name,), recovery)
    assert node.health(1) is Health.HEALTHY


@pytest.mark.parametrize(
    "values",
    [
        {"remapped_uncorrected": 511},
        {"retired_sbe": 60, "retired_dbe": 2},
        {"retired_sbe": 70},
        {"temperature_celsius": 89},
        {"margin_celsius": 0},
        {"margin_celsius": -1},
        {"margin_celsius": 4},
        {"throttle_reasons": 0x1 | 0x2 | 0x4 | 0x10 | 0x100},
        {"fabric_state": 0, "fabric_status": 3},
        {"fabric_state": 3, "fabric_status": 0, "fabric_mask": 0b10_10_0001_10_10_10_10},
        {"fabric_state": 3, "fabric_mask": 0x400, "fabric_summary": 1},
        {"pcie_width": 8, "pcie_width_max": 16, "utilization_ratio": 0.1},
        {"pcie_width": 8, "pcie_width_max": 16},
        {"pcie_generation": 1, "pcie_generation_max": 5, "utilization_ratio": 0.0},
        {"persistence": 0, "mig": 1},
        {"ecc_uncorrected": float("nan"), "temperature_celsius": float("inf")},
    ],
)
def test_what_is_within_bounds_says_nothing_however_often_it_is_seen(
    values: dict[str, float],
) -> None:
    node = Watched()
    node.rounds(150, **values)

    assert node.health() is Health.HEALTHY


@pytest.mark.parametrize(
    ("action", "health", "recovery"),
    [
        (1, Health.FAULTY, Recovery.RESET),
        (2, Health.FAULTY, Recovery.REBOOT),
        (3, Health.DEGRADED, Recovery.RESET_WHEN_IDLE),
        (4, Health.FAULTY, Recovery.RESET),
        (5, Health.DEGRADED, Recovery.NONE),
        (6, Health.FAULTY, Recovery.RESET),
        (7, Health.FAULTY, Recovery.REBOOT),
    ],
)
def test_the_recovery_action_is_the_drivers_own_verdict(
    action: int, health: Health, recovery: Recovery
) -> None:
    node = Watched()
    node.look(recovery_action=action)

    assert (node.health(), node.verdict().recovery) == (health, recovery)
    assert node.reasons() == ("recovery_action",)


def test_a_recovery_action_that_is_not_known_here_is_not_none() -> None:
    node = Watched()
    node.look(recovery_action=42)

    assert node.reasons() == ("unknown_action",)
    assert (node.health(), node.verdict().recovery) == (Health.FAULTY, Recovery.REBOOT)


def test_a_recovery_action_that_gets_worse_is_judged_anew_and_is_as_old_as_it_is() -> None:
    node = Watched()
    node.look(recovery_action=3)
    began = node.mark("recovery_action").since
    node.looks(1, recovery_action=2)

    assert node.health() is Health.FAULTY
    assert node.mark("recovery_action").since == began


def test_uncorrected_errors_are_a_fault_unless_the_driver_needs_no_recovery() -> None:
    old, new = Watched(action=None), Watched(action=0)
    old.look(ecc_uncorrected=1)
    new.look(ecc_uncorrected=1)

    assert (old.health(), old.verdict().recovery) == (Health.FAULTY, Recovery.RESET)
    assert (new.health(), new.verdict().recovery) == (Health.DEGRADED, Recovery.RESET_WHEN_IDLE)


def test_corrected_errors_count_by_their_rate_and_not_by_their_number() -> None:
    node = Watched(1)
    for step in range(30):
        node.looks(1, ecc_corrected=20_000_000 + 5 * step)
    assert node.health() is Health.HEALTHY

    node.looks(1, ecc_corrected=20_000_300)
    assert node.reasons() == ("ecc_corrected_rate",)

    node.looks(20, ecc_corrected=20_000_300)
    assert node.health() is Health.HEALTHY


def test_a_counter_that_begins_anew_has_not_grown() -> None:
    node = Watched(1)
    node.looks(3, ecc_corrected=5000, nvlink_replays=9)
    node.looks(3, ecc_corrected=40, nvlink_replays=0)

    assert node.health() is Health.HEALTHY


@pytest.mark.parametrize("every", [1.0, 5.0, 30.0])
def test_throttling_is_taken_by_the_minute_however_often_is_looked(every: float) -> None:
    node = Watched(1)
    looks_a_minute = int(60 / every)
    node.now = 1200.0 - every
    for minute in range(6):
        assert node.health() is Health.HEALTHY, minute
        node.looks(looks_a_minute, every=every, throttle_reasons=0x40)

    assert node.reasons() == ("throttled",)
    assert "heat, by hardware" in node.mark("throttled").detail

    node.looks(6 * looks_a_minute, every=every, throttle_reasons=0x4)
    assert node.health() is Health.HEALTHY


def test_throttling_in_five_of_ten_minutes_is_not_enough() -> None:
    node = Watched(1)
    node.now = 1195.0
    for minute in range(40):
        node.looks(12, throttle_reasons=0x8 if minute % 2 else 0)

    assert node.health() is Health.HEALTHY


def test_time_spent_throttled_is_seen_between_the_samples() -> None:
    node = Watched(1)
    for step in range(20):
        node.looks(1, every=30.0, throttle_thermal_hw_seconds=20.0 * step)

    assert node.reasons() == ("throttled_thermal_hw",)


def test_pages_that_go_on_being_retired_after_many_are_a_fault() -> None:
    node = Watched(1)
    node.looks(2, retired_dbe=15)
    node.looks(1, retired_dbe=15)
    assert node.health() is Health.HEALTHY

    node.looks(1, retired_dbe=16)
    assert node.reasons() == ("retired_pages_growing",)


def test_a_corrupted_inforom_is_remembered_between_the_calls_that_say_so() -> None:
    node = Watched(1)
    node.look(codes={"inforom": 14})
    node.looks(200)
    assert node.reasons() == ("inforom_corrupted",)

    node.looks(200)
    assert node.health() is Health.HEALTHY


@pytest.mark.parametrize(
    ("link", "limit"),
    [
        ({"pcie_generation_max": 5, "pcie_width": 16}, 31),
        ({"pcie_generation_max": 4, "pcie_width": 8}, 8),
        ({"pcie_generation_max": 3, "pcie_width": 16}, 8),
        (SLOW_LINK, 31),
    ],
)
def test_as_many_replays_are_well_as_suit_the_link(link: dict[str, float], limit: int) -> None:
    node = Watched(2)
    node.look(0, pcie_replays=0, **link)
    node.look(1, pcie_replays=0, **link)
    node.wait(60)
    node.look(0, pcie_replays=limit)
    node.look(1, pcie_replays=limit + 1)

    assert node.health(0) is Health.HEALTHY
    assert node.reasons(1) == ("pcie_replays",)


def test_replays_on_a_link_of_unknown_kind_say_nothing() -> None:
    node = Watched(1)
    node.looks(2, pcie_replays=0, pcie_generation_max=9, pcie_width=16)
    node.looks(2, pcie_replays=100_000)

    assert node.health() is Health.HEALTHY


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("pcie_width", {"pcie_width": 8, "pcie_width_max": 16}),
        ("pcie_generation", {"pcie_generation": 1, "pcie_generation_max": 5}),
    ],
)
def test_a_slow_link_counts_under_load_alone(name: str, values: dict[str, float]) -> None:
    node = Watched(1)
    node.looks(2, utilization_ratio=1.0, **values)
    assert node.health() is Health.HEALTHY

    node.looks(1, utilization_ratio=1.0, **values)
    assert node.reasons() == (name,)


def test_an_nvlink_that_was_active_and_is_not_any_more_is_missed_on_any_board() -> None:
    node = Watched(2, name=PCIE)
    node.looks(1, nvlink_active=12, nvlink_present=18)
    node.looks(2, nvlink_active=10, nvlink_present=18)
    assert node.health() is Health.HEALTHY

    node.looks(1, nvlink_active=10, nvlink_present=18)
    assert node.reasons() == ("nvlink_inactive",)
    assert node.mark("nvlink_inactive").detail == "NVLinks inactive: 2 of 12"


@pytest.mark.parametrize(
    ("name", "gpus", "active"),
    [
        (PCIE, 2, 12),
        (PCIE, 2, 0),
        ("NVIDIA A100 80GB PCIe", 1, 0),
        ("NVIDIA H200 NVL", 4, 0),
        ("NVIDIA A40", 4, 0),
        ("NVIDIA A30", 2, 0),
        ("Quadro RTX 8000", 2, 0),
        (SXM2, 4, 4),
        ("Tesla P100-SXM2-16GB", 4, 0),
    ],
)
def test_a_board_need_not_have_all_its_nvlinks_connected(name: str, gpus: int, active: int) -> None:
    """NVSentinel pull request 1481, azurehpc-health-checks issue 162: bridges, or none."""
    node = Watched(gpus, name=name)
    node.rounds(5, nvlink_active=active, nvlink_present=18)

    assert node.health() is Health.HEALTHY


@pytest.mark.parametrize(
    "name",
    [
        SXM,
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA H200",
        "NVIDIA B200",
        "NVIDIA B300 SXM6 AC",
        "NVIDIA GB200",
        "NVIDIA GB300",
    ],
)
def test_a_board_that_links_all_its_gpus_misses_each_inactive_nvlink(name: str) -> None:
    """Issue 1085 of gpud."""
    node = Watched(4, name=name)
    node.rounds(3, nvlink_active=0, nvlink_present=18)

    assert node.reasons() == ("nvlink_inactive",)


def test_a_board_with_a_fabric_misses_inactive_nvlinks_whatever_its_name() -> None:
    node = Watched(8, name="NVIDIA H20")
    node.rounds(3, nvlink_active=0, nvlink_present=18, fabric_state=3)

    assert node.reasons() == ("nvlink_inactive",)


def test_a_gpu_alone_or_cut_into_instances_needs_no_nvlinks() -> None:
    alone, cut = Watched(1), Watched(2)
    alone.rounds(5, nvlink_active=0, nvlink_present=18)
    cut.rounds(5, nvlink_active=0, nvlink_present=18, mig=1)

    assert alone.health() is cut.health() is Health.HEALTHY


@pytest.mark.parametrize("signal", ["nvlink_replays", "nvlink_recoveries"])
def test_each_new_nvlink_error_degrades_for_a_while(signal: str) -> None:
    node = Watched(1)
    node.looks(3, **{signal: 7})
    assert node.health() is Health.HEALTHY

    node.looks(1, **{signal: 8})
    assert node.reasons() == (signal,)

    node.looks(45, **{signal: 8})
    assert node.health() is Health.HEALTHY


def test_nvlink_recoveries_that_failed_are_a_fault_unless_the_driver_needs_no_recovery() -> None:
    old, new = Watched(action=None), Watched(action=0)
    old.look(nvlink_recovery_failures=1)
    new.look(nvlink_recovery_failures=1)

    assert (old.health(), new.health()) == (Health.FAULTY, Health.DEGRADED)


@pytest.mark.parametrize(
    ("mask", "summary", "words"),
    [
        (0b01, 0, "less bandwidth"),
        (0b01_00, 0, "a route is being recovered"),
        (0b01_00_00, 0, "a route is not healthy"),
        (0b01_00_00_00, 0, "recovering from a time-out"),
        (0x500, 0, "wrongly configured"),
        (0, 2, "unhealthy"),
        (0, 3, "limited capacity"),
    ],
)
def test_each_field_of_the_fabrics_health_is_read_for_itself(
    mask: int, summary: int, words: str
) -> None:
    node = Watched()
    for _ in range(3):
        assert node.health() is Health.HEALTHY
        node.looks(1, fabric_state=3, fabric_status=0, fabric_mask=mask, fabric_summary=summary)

    assert node.mark("fabric_health").detail == f"NVLink fabric: {words}"


def test_a_mark_ends_after_three_looks_that_speak_against_it_and_not_before() -> None:
    node = Watched()
    node.look(remap_pending=1)
    node.looks(2, remap_pending=0)
    node.looks(1, remap_pending=1)
    node.looks(2, remap_pending=0)
    assert node.health() is Health.DEGRADED

    node.looks(1, remap_pending=0)
    assert node.health() is Health.HEALTHY


def test_one_more_hot_sample_on_the_way_down_begins_the_good_looks_anew() -> None:
    node = Watched()
    node.looks(3, temperature_celsius=95)
    for value in (60, 60, 95, 60, 60):
        node.looks(1, temperature_celsius=value)
    assert node.health() is Health.DEGRADED

    node.looks(1, temperature_celsius=60)
    assert node.health() is Health.HEALTHY


def test_a_look_that_does_not_read_a_signal_says_nothing_of_it() -> None:
    node = Watched()
    node.look(remap_pending=1)
    node.looks(20)
    for _ in range(5):
        node.wait(5)
        node.look(codes={"remap_pending": 999})

    assert node.reasons() == ("row_remap_pending",)


@pytest.mark.parametrize("code", [2, 3, 4, 13])
def test_a_mark_whose_signal_there_is_no_more_ends(code: int) -> None:
    node = Watched()
    node.looks(3, temperature_celsius=95, retired_sbe=70, retired_dbe=9)
    assert set(node.reasons()) == {"temperature", "retired_pages"}
    node.repair()
    for _ in range(2):
        node.wait(5)
        node.look(codes={"temperature_celsius": code, "retired_dbe": code})
    assert set(node.reasons()) == {"temperature", "retired_pages"}

    node.wait(5)
    node.look(codes={"temperature_celsius": code, "retired_dbe": code})
    assert node.health() is Health.HEALTHY


def test_a_corrupted_inforom_of_before_a_restart_or_reset_ends_too() -> None:
    for is_restarted in (True, False):
        node = Watched(1)
        node.look(codes={"inforom": 14})
        if is_restarted:
            node = node.restarted()
            node.watch(WatchState.WATCHING)
        else:
            node.repair()
        node.looks(3)
        assert node.reasons() == ("inforom_corrupted",)

        node.looks(400)
        assert node.health() is Health.HEALTHY


@pytest.mark.parametrize(
    ("name", "before", "now", "seconds"),
    [
        ("retired_pages_growing", {"retired_dbe": 15}, {"retired_dbe": 16}, 7 * 86400),
        ("nvlink_replays", {"nvlink_replays": 0}, {"nvlink_replays": 5}, 180),
        ("ecc_corrected_rate", {"ecc_corrected": 0}, {"ecc_corrected": 5000}, 60),
    ],
)
def test_what_had_grown_before_a_restart_stands_until_it_has_not_grown_for_as_long_as_it_takes(
    name: str, before: dict[str, float], now: dict[str, float], seconds: float
) -> None:
    node = Watched(1)
    node.look(**before)
    node.looks(1, **now)
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.looks(10, **now)
    assert again.reasons() == (name,)

    again.wait(seconds)
    again.looks(3, **now)
    assert again.health() is Health.HEALTHY


def test_nvlinks_missed_before_a_restart_are_missed_until_more_of_them_are_active() -> None:
    node = Watched(2, name=PCIE)
    node.looks(1, nvlink_active=12, nvlink_present=18)
    node.looks(3, nvlink_active=10, nvlink_present=18)
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.looks(20, nvlink_active=10, nvlink_present=18)
    assert again.reasons() == ("nvlink_inactive",)

    again.looks(3, nvlink_active=12, nvlink_present=18)
    assert again.health() is Health.HEALTHY


def test_a_gpu_that_was_throttled_before_a_restart_is_until_ten_minutes_say_otherwise() -> None:
    node = Watched(1)
    node.looks(84, throttle_reasons=0x40)
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.looks(110, throttle_reasons=0)
    assert again.reasons() == ("throttled",)

    again.looks(15, throttle_reasons=0)
    assert again.health() is Health.HEALTHY


def test_figures_too_large_to_be_added_up_are_none() -> None:
    node = Watched()
    node.look(retired_sbe=1.7e308, retired_dbe=1.7e308)

    assert node.health() is Health.HEALTHY


def test_each_rule_has_a_name_of_its_own_and_says_what_it_found() -> None:
    assert len({rule.name for rule in SIGNALS}) == len(SIGNALS)
    assert all(rule.words.format(figure=1.0, text="x") for rule in SIGNALS)
