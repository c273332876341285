"""From the configuration to what the decision core, the hooks and the watch over GPUs go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lastcall.config.schema import Config
from lastcall.core.gpu.rules import SignalOverride, XidOverride, make_rules
from lastcall.core.model import Stance
from lastcall.core.policy import Policy, Rule
from lastcall.core.turn import Settings
from lastcall.gpu.supervisor import ProbeSettings
from lastcall.gpu.watch import WatchSettings
from lastcall.hooks.dispatch import ON_DRAINED, ON_FLUSHED, ON_NOTICE, ON_WITHDRAWN


def machine_settings(config: Config) -> Settings:
    """Return the core's settings."""
    # A shutdown waits for our word in any case.
    acknowledges = {"shutdown", "azure"} if config.notices.azure.acknowledge else {"shutdown"}
    rules = tuple(
        Rule(
            source=rule.source,
            kind=rule.kind,
            code=rule.code,
            stance=Stance(rule.respond),
            drain=rule.drain,
            act_before_seconds=rule.act_before_seconds,
            expires_seconds=rule.expires_seconds,
            assumed_lead_seconds=rule.assumed_lead_seconds,
        )
        for rule in config.notices.rules
    )
    return Settings(
        policy=Policy(rules, config.flush.assumed_lead_seconds),
        acts=config.mode == "act",
        reserve_seconds=config.flush.reserve_seconds,
        late_seconds=config.flush.late_seconds,
        volatile_paths=config.flush.volatile_paths,
        acknowledges=frozenset(acknowledges),
        prior_interruption_seconds=config.flush.prior_interruption_seconds,
    )


def hook_commands(config: Config) -> Mapping[str, Sequence[Sequence[str]]]:
    """Return the site's programs by hook; an agent that only watches runs none."""
    if config.mode == "observe":
        return {}
    return {
        ON_NOTICE: config.hooks.on_notice,
        ON_FLUSHED: config.hooks.on_flushed,
        ON_DRAINED: config.hooks.on_drained,
        ON_WITHDRAWN: config.hooks.on_withdrawn,
    }


def gpu_watch_settings(config: Config) -> WatchSettings:
    """Return how the GPUs are watched."""
    gpu = config.gpu
    return WatchSettings(
        enabled=gpu.enabled is not False,
        rules=make_rules(
            (
                XidOverride(each.xid, each.respond, each.repeats, each.within_seconds)
                for each in gpu.xids
            ),
            (
                SignalOverride(each.name, each.respond, each.limit, each.hits, each.looks)
                for each in gpu.rules
            ),
            expected=gpu.expected,
            look_seconds=gpu.poll_seconds,
        ),
        acts_on_faults=gpu.act_on_faults,
        kernel_log=Path(gpu.kernel_log) if gpu.kernel_log else None,
        expected=gpu.expected,
        probe=ProbeSettings(
            always=gpu.enabled is True,
            poll_seconds=gpu.poll_seconds,
            call_seconds=gpu.call_seconds,
        ),
    )
