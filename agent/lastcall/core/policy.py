"""How each kind of sighting is answered: a table as data, with the site's own rules before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from lastcall.core.model import Action, Kind, Response, Sighting, Stance

ACT_BEFORE_SECONDS = 900.0
"""How long before it starts a scheduled event is told and acted upon."""

ADVICE_EXPIRES_SECONDS = 1800.0
"""How long an advice stands that nobody withdraws."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table: where the patterns match, the fields that are set hold."""

    source: str = "*"
    kind: str = "*"
    code: str = "*"
    stance: Stance | None = None
    drain: bool | None = None
    act_before_seconds: float | None = None
    expires_seconds: float | None = None
    assumed_lead_seconds: float | None = None

    def matches(self, sighting: Sighting) -> bool:
        """Whether the rule speaks of this sighting."""
        return (
            fnmatchcase(sighting.source, self.source)
            and fnmatchcase(sighting.kind, self.kind)
            and fnmatchcase(sighting.code, self.code)
        )


_FLUSH = Stance.FLUSH

# Other controllers' marks on the node. Who may think better of it is answered by an advice, which
# stands as long as the mark. A flush is for an end that nobody takes back; the node is drained only
# where whoever put the mark there does not drain it, or not dependably (AKS). Lead times: those of
# CoreWeave and AWS as documented; where pods are deleted at once, the grace period that they have
# by default; where kubelet ends them, the half of GKE's shutdown that is theirs.
_NODE: tuple[tuple[Rule, Response], ...] = (
    (Rule("node", code="Preempt"), Response(_FLUSH, True, assumed_lead_seconds=30.0)),
    (Rule("node", code="Terminate"), Response(_FLUSH, True, assumed_lead_seconds=30.0)),
    (Rule("node", code="NodeShutdown"), Response(_FLUSH, False, assumed_lead_seconds=15.0)),
    (
        Rule("node", code="cloud.google.com/impending-node-termination"),
        Response(_FLUSH, False, assumed_lead_seconds=30.0),
    ),
    (
        Rule("node", code="qos.coreweave.cloud/pending-preemption"),
        Response(_FLUSH, False, assumed_lead_seconds=420.0),
    ),
    (
        Rule("node", code="aws-node-termination-handler/spot-itn"),
        Response(_FLUSH, False, assumed_lead_seconds=120.0),
    ),
    (
        Rule("node", code="aws-node-termination-handler/asg-lifecycle-termination"),
        Response(_FLUSH, False, assumed_lead_seconds=60.0),
    ),
    (
        Rule("node", code="node.gke.io/machine-termination-datetime"),
        Response(_FLUSH, True, act_before_seconds=ACT_BEFORE_SECONDS),
    ),
    (
        Rule("node", code="Reboot"),
        Response(_FLUSH, True, act_before_seconds=ACT_BEFORE_SECONDS, assumed_lead_seconds=600.0),
    ),
    (
        Rule("node", code="Redeploy"),
        Response(_FLUSH, True, act_before_seconds=ACT_BEFORE_SECONDS, assumed_lead_seconds=600.0),
    ),
    (
        Rule("node", code="cloud.google.com/scheduled-maintenance-time"),
        Response(Stance.ADVISE, False, act_before_seconds=ACT_BEFORE_SECONDS),
    ),
    (Rule("node"), Response(Stance.ADVISE, False)),
)

# A file or an answer is a notice though it states no time, whatever it announces. Alibaba documents
# five minutes, Tencent no figure.
_OTHER_CLOUDS: tuple[tuple[Rule, Response], ...] = (
    (
        Rule("file", "maintenance"),
        Response(_FLUSH, True, act_before_seconds=ACT_BEFORE_SECONDS, assumed_lead_seconds=30.0),
    ),
    (
        Rule("url", "maintenance"),
        Response(_FLUSH, True, act_before_seconds=ACT_BEFORE_SECONDS, assumed_lead_seconds=30.0),
    ),
    (Rule("url", code="alibaba"), Response(_FLUSH, True, assumed_lead_seconds=300.0)),
    (Rule("url", code="tencent"), Response(_FLUSH, True, assumed_lead_seconds=60.0)),
)

# A GPU's fault: who trains on the others has little time, since a collective that has lost a rank
# hangs. What is no fault yet is a good moment to save, and stands as long as it is so.
_GPU: tuple[tuple[Rule, Response], ...] = (
    (Rule("gpu", code="degraded"), Response(Stance.ADVISE, False)),
    (Rule("gpu"), Response(_FLUSH, True, assumed_lead_seconds=30.0)),
)

# The first line that matches holds. Lead times are the providers' own figures: AWS and Azure
# document two minutes and at least 30 s, Google about 30 s and an hour for a GPU machine's host
# maintenance; an Auto Scaling target state carries no time at all.
BUILT_IN: tuple[tuple[Rule, Response], ...] = (
    (Rule(kind="manual"), Response(_FLUSH, drain=False, assumed_lead_seconds=30.0)),
    *_NODE,
    *_GPU,
    (Rule(kind="rebalance"), Response(Stance.ADVISE, False, None, ADVICE_EXPIRES_SECONDS)),
    (Rule("aws", "preemption"), Response(_FLUSH, True, assumed_lead_seconds=120.0)),
    (Rule("aws", "termination"), Response(_FLUSH, True, assumed_lead_seconds=60.0)),
    (
        Rule("gcp", "maintenance", "TERMINATE_ON_HOST_MAINTENANCE"),
        Response(_FLUSH, True, assumed_lead_seconds=3600.0),
    ),
    (
        Rule("azure", "maintenance"),
        Response(_FLUSH, True, act_before_seconds=ACT_BEFORE_SECONDS, assumed_lead_seconds=600.0),
    ),
    *_OTHER_CLOUDS,
    (Rule(kind="maintenance"), Response(_FLUSH, True, act_before_seconds=ACT_BEFORE_SECONDS)),
    (Rule(kind="shutdown"), Response(_FLUSH, True, assumed_lead_seconds=5.0)),
    (Rule(), Response(_FLUSH, True, assumed_lead_seconds=30.0)),
)

_HARMLESS = (Action.FREEZE, Action.MIGRATE, Action.NONE)


@dataclass(frozen=True, slots=True)
class Policy:
    """The site's rules before the built-in table.

    Attributes:
        rules: the site's own; the first that matches changes the built-in answer.
        assumed_lead_seconds: by ``source.kind``, or by ``source`` for its ways to end the machine.
    """

    rules: tuple[Rule, ...] = ()
    assumed_lead_seconds: Mapping[str, float] = field(default_factory=dict)

    def respond(self, sighting: Sighting) -> Response:
        """Return what is to be done about a sighting."""
        response = next(answer for rule, answer in BUILT_IN if rule.matches(sighting))
        if sighting.kind is Kind.MAINTENANCE and sighting.action in _HARMLESS:
            response = Response(Stance.INFORM, drain=False)
        assumed = self._assumed_lead(sighting)
        if assumed is not None and response.stance is Stance.FLUSH:
            response = replace(response, assumed_lead_seconds=assumed)
        for rule in self.rules:
            if rule.matches(sighting):
                return _override(response, rule)
        return response

    def expected_lead_seconds(self, provider: str) -> float | None:
        """Return the warning to be expected from a provider's preemption, in seconds."""
        example = Sighting(
            source=provider, scope="", key="", kind=Kind.PREEMPTION, action=Action.TERMINATE
        )
        return self.respond(example).assumed_lead_seconds

    def _assumed_lead(self, sighting: Sighting) -> float | None:
        exact = self.assumed_lead_seconds.get(f"{sighting.source}.{sighting.kind}")
        if exact is not None or sighting.kind not in (Kind.PREEMPTION, Kind.TERMINATION):
            return exact
        return self.assumed_lead_seconds.get(sighting.source)


def _override(response: Response, rule: Rule) -> Response:
    changes = {
        name: value
        for name in Response.__dataclass_fields__
        if (value := getattr(rule, name)) is not None
    }
    changed = replace(response, **changes)
    at_once = changed.stance is Stance.FLUSH and changed.act_before_seconds is None
    if at_once and changed.assumed_lead_seconds is None:
        # A flush needs a deadline, or it would never be missed.
        changed = replace(changed, assumed_lead_seconds=30.0)
    # Only a node that is going is drained.
    return replace(changed, drain=changed.drain and changed.stance is Stance.FLUSH)
