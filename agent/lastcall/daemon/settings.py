"""From the configuration to what the decision core goes by."""

from __future__ import annotations

from lastcall.config.schema import Config
from lastcall.core.model import Stance
from lastcall.core.policy import Policy, Rule
from lastcall.core.turn import Settings


def machine_settings(config: Config) -> Settings:
    """Return the core's settings."""
    acknowledges = {"azure"} if config.notices.azure.acknowledge else set()
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
