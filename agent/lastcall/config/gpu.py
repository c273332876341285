"""How the GPUs are watched, and the site's own view of what is a fault."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import asdict

from lastcall.config import forms
from lastcall.config.forms import Form, or_empty
from lastcall.config.table import PollSeconds, Switch, Table, about
from lastcall.core.gpu.rules import SignalOverride, make_rules
from lastcall.core.gpu.signal_rules import SIGNALS

_RULES = tuple(rule.name for rule in SIGNALS)


def _looks_built_in() -> str:
    """Return in words how many looks each rule considers where the site does not say."""
    names: dict[int, list[str]] = {}
    for rule in SIGNALS:
        names.setdefault(rule.looks, []).append(rule.name)
    several = (
        f"{looks} for {', '.join(names[looks])}" for looks in sorted(names, reverse=True)[:-1]
    )
    return f"{'; '.join(several)}; {min(names)} for the others"


class GpuXid(Table, frozen=True, kw_only=True):
    """How one XID error is taken; what is left out stays as built in."""

    xid: Annotated[int, Meta(ge=1, le=99999), about("Its number.")]
    respond: Annotated[
        Literal["ignore", "app", "watch", "reset", "reboot", "ask"],
        about(
            'What it says. "app": a fault of the program; "watch": the GPU is degraded; "reset", '
            '"reboot": it is faulty until then; "ask": its number says nothing, the driver is '
            "asked."
        ),
    ]
    repeats: Annotated[
        int, Meta(ge=1, le=1000000), about("How many of it, in within_seconds, say so.")
    ] = 1
    within_seconds: Annotated[
        float, Meta(ge=1, le=31536000), about("The time in which repeats are counted.")
    ] = 600.0


class GpuRule(Table, frozen=True, kw_only=True):
    """How one signal is judged; what is left out stays as built in."""

    name: Annotated[
        str,
        Form(f"one of {', '.join(_RULES)}", _RULES.__contains__),
        about("The rule's name; docs/reference/gpu.md says what each is about."),
    ]
    respond: Annotated[
        Literal["ignore", "degraded", "faulty"] | None, about("What it makes of the GPU.")
    ] = None
    limit: Annotated[
        Annotated[float, Meta(ge=0, le=1e12)] | None, about("The figure from which on it holds.")
    ] = None
    hits: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None, about("How many of the last looks must say so.")
    ] = None
    looks: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None, about("How many looks are considered.")
    ] = None


def _written(tables: Iterable[Any]) -> list[dict[str, object]]:
    return [
        {name: value for name, value in asdict(table).items() if value is not None}
        for table in tables
    ]


def _fit(rules: tuple[GpuRule, ...]) -> bool:
    try:
        make_rules(
            signals=(
                SignalOverride(rule.name, rule.respond, rule.limit, rule.hits, rule.looks)
                for rule in rules
            )
        )
    except ValueError:
        return False
    return True


class Gpu(Table, frozen=True):
    """The health of the node's GPUs."""

    enabled: Annotated[Switch, about("Whether GPUs are watched.")] = "auto"
    act_on_faults: Annotated[
        bool, about("Whether a fault is a notice; otherwise it is only reported.")
    ] = False
    poll_seconds: Annotated[PollSeconds, about("Time between looks at the GPUs.")] = 5.0
    call_seconds: Annotated[
        float,
        Meta(ge=0.5, le=600),
        about("How long one call into the driver may take before it counts as hanging."),
    ] = 30.0
    expected: Annotated[
        int,
        Meta(ge=0, le=1024),
        about("How many GPUs there should be; 0: as many as stand on the PCI bus."),
    ] = 0
    kernel_log: Annotated[
        str,
        or_empty(forms.ABSOLUTE_PATH, "none"),
        about("Where the kernel's own lines about GPU errors are read, if that is permitted."),
    ] = "/dev/kmsg"
    xids: Annotated[
        tuple[GpuXid, ...],
        Form("a list of tables, as [[gpu.xids]] makes it", write=_written),
        about("How XID errors are taken, before what is built in."),
    ] = ()
    rules: Annotated[
        tuple[GpuRule, ...],
        Form(
            "a list of tables, as [[gpu.rules]] makes it, with hits no more than looks, which "
            f"are, where a rule's table has none, {_looks_built_in()}",
            _fit,
            write=_written,
        ),
        about("How signals are judged, before what is built in."),
    ] = ()
