"""Every setting: its type, its bounds, its meaning and its default.

The reference page, the JSON Schema and the error texts are all made from what stands here, in
``notices`` and in ``gpu``.
"""

from collections.abc import Mapping
from signal import Signals
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from lastcall.config import forms
from lastcall.config.forms import Form, or_empty
from lastcall.config.gpu import Gpu
from lastcall.config.notices import Notices
from lastcall.config.rules import SOURCES
from lastcall.config.table import (
    AbsolutePath,
    Count,
    LeadSeconds,
    Table,
    about,
)
from lastcall.core.model import Kind

Backend = Literal["auto", "none", "kubernetes", "slurm", "systemd"]


class Socket(Table, frozen=True):
    """The socket that training processes connect to, and what one of them may cost."""

    path: Annotated[
        str,
        forms.SOCKET_PATH,
        about("Where the socket stands. LASTCALL_SOCKET sets it too, and clients read the same."),
    ] = "/run/lastcall/agent.sock"
    mode: Annotated[str, forms.OCTAL_MODE, about("Permissions of the socket.")] = "0666"
    group: Annotated[str, forms.GROUP, about("The group that the socket is handed to.")] = ""
    max_connections: Annotated[Count, about("Connections at one time.")] = 2048
    max_connections_per_user: Annotated[
        Count, about("Connections of one user at one time; max_connections holds beside it.")
    ] = 1536
    messages_per_second: Annotated[
        float, Meta(ge=1, le=100000), about("Messages from one connection, over some seconds.")
    ] = 50.0
    bytes_per_second: Annotated[
        float, Meta(ge=1024, le=1e9), about("Bytes from one connection, over some seconds.")
    ] = 65536.0


HOOK = Form(
    "a list of commands, each a list of a program and its arguments",
    accepts=all,
    schema={
        "type": "array",
        "items": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    },
)


class Http(Table, frozen=True):
    """The pages for people and for Prometheus."""

    listen: Annotated[
        str, forms.LISTEN, about("Where /metrics, /healthz, /readyz and /status are served.")
    ] = "0.0.0.0:9855"


def _names_a_source(name: str) -> bool:
    source, dot, kind = name.partition(".")
    return source in SOURCES and (not dot or kind in tuple(Kind))


_LEAD_NAME = Form(
    f'"SOURCE" or "SOURCE.KIND" in quotes; sources: {", ".join(SOURCES)}; kinds: {", ".join(Kind)}',
    _names_a_source,
)


class Flush(Table, frozen=True):
    """The time that the training processes get, and what counts as saved."""

    reserve_seconds: Annotated[
        float,
        Meta(ge=0, le=3600),
        about("Kept back from the deadline for the drain; never more than a third of the notice."),
    ] = 10.0
    assumed_lead_seconds: Annotated[
        Mapping[Annotated[str, _LEAD_NAME], LeadSeconds],
        Form(f"a table of seconds by {_LEAD_NAME.allowed}"),
        about(
            "Time from first sight to the end where the provider names none. Google's preemption "
            "notice: 30, or 120 on machines created with a notice of 120 seconds."
        ),
    ] = field(default_factory=lambda: {"gcp": 30.0})
    late_seconds: Annotated[
        float,
        Meta(ge=0, le=3600),
        about("How long after the deadline a flush is late; after that it is missed."),
    ] = 5.0
    volatile_paths: Annotated[
        tuple[AbsolutePath, ...],
        about("Paths that die with the machine: a flush there is not durable."),
    ] = ("/dev/shm", "/run")  # noqa: S108 - named as a place where nothing may be kept
    prior_interruption_seconds: Annotated[
        float,
        Meta(ge=60, le=31536000),
        about("Mean time between interruptions that advice assumes until it has been measured."),
    ] = 21600.0


def _is_signal(name: str) -> bool:
    return not name or f"SIG{name}" in Signals.__members__


class KubernetesDrain(Table, frozen=True):
    """Cordon and eviction through the Kubernetes API."""

    kubeconfig: Annotated[
        str,
        or_empty(forms.ABSOLUTE_PATH, "the pod's own account"),
        about("The file that says how the API is reached."),
    ] = ""
    taint: Annotated[
        bool,
        about("Put the taint lastcall.dev/notice=KIND:NoSchedule on the node beside the cordon."),
    ] = False
    method: Annotated[
        Literal["evict", "delete"],
        about(
            '"evict" heeds disruption budgets; "delete" needs no right to evict: each pod is '
            "marked as disrupted and deleted, and no budget is asked."
        ),
    ] = "evict"
    force: Annotated[
        Literal["all", "training", "none"],
        about(
            "Which pods that a budget still holds back are deleted all the same, once no more than "
            "the time they need to end is left."
        ),
    ] = "all"
    calls_in_flight: Annotated[
        int, Meta(ge=1, le=64), about("Calls to the API at one time while the node is drained.")
    ] = 16


class SlurmDrain(Table, frozen=True):
    """Draining through Slurm: its node is drained, and jobs are requeued once they have flushed."""

    node_name: Annotated[str, forms.SLURM_NODE_NAME, about("The node's name there.")] = ""
    requeue: Annotated[
        Literal["single", "all", "none"],
        about(
            'Which requeueable jobs are requeued after their flush: those of one node ("single"), '
            "those of several nodes too, or none."
        ),
    ] = "single"
    signal: Annotated[
        str,
        Form('the name of a signal, such as "USR1", or "" for none', _is_signal),
        about(
            "Sent to the batch scripts of jobs that do not use the socket, where they catch it; "
            "any other would be ended by it."
        ),
    ] = "USR1"
    call_seconds: Annotated[
        float, Meta(ge=0.1, le=60), about("How long one call of a Slurm command may take.")
    ] = 3.0


class SystemdDrain(Table, frozen=True):
    """Units that are stopped after their processes have flushed."""

    units: Annotated[
        tuple[Annotated[str, forms.UNIT], ...],
        about("The units; of those that are due at once, the first is told to stop first."),
    ] = ()


class Drain(Table, frozen=True):
    """How the node is emptied once its processes have flushed."""

    backend: Annotated[
        Backend,
        about('What empties the node; "auto" finds out.'),
    ] = "auto"
    kubernetes: KubernetesDrain = KubernetesDrain()
    slurm: SlurmDrain = SlurmDrain()
    systemd: SystemdDrain = SystemdDrain()


Program = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...],
    Form("a list of a program and its arguments", repeats=True),
]


class Hooks(Table, frozen=True):
    """Programs of the site's own, for schedulers that are not known here."""

    on_notice: Annotated[
        tuple[Program, ...], HOOK, about("Run when the processes are told of a notice.")
    ] = ()
    on_flushed: Annotated[
        tuple[Program, ...], HOOK, about("Run when every flush is over, or its time is up.")
    ] = ()
    on_drained: Annotated[
        tuple[Program, ...], HOOK, about("Run when flushes and drain are over, however they ended.")
    ] = ()
    on_withdrawn: Annotated[
        tuple[Program, ...],
        HOOK,
        about("Run when a notice is withdrawn, or is over and the machine goes on."),
    ] = ()
    every_notice: Annotated[
        bool,
        about(
            "Run them also for notices that the node is not drained for: advice, and drills "
            "without a drain."
        ),
    ] = False
    timeout_seconds: Annotated[
        float,
        Meta(ge=0.1, le=3600),
        about(
            "How long one may run; before the deadline no longer than until then, but at least 1."
        ),
    ] = 30.0


class Report(Table, frozen=True):
    """Who else is told."""

    pending: ClassVar[bool] = True

    webhooks: Annotated[
        tuple[Annotated[str, forms.URL], ...], about("Addresses that each notice is posted to.")
    ] = ()
    pushgateway: Annotated[
        str,
        or_empty(forms.URL, "none"),
        about("A Prometheus Pushgateway that is sent the last figures of a machine that goes."),
    ] = ""


class Log(Table, frozen=True):
    """The agent's own log, on standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], about("The least that is written.")
    ] = "info"
    format: Annotated[
        Literal["auto", "json", "console"],
        about('"auto": for people on a terminal, JSON elsewhere.'),
    ] = "auto"


class Config(Table, frozen=True):
    """Everything that can be set."""

    node_name: Annotated[
        str, forms.NODE_NAME, about("The node's name, as Kubernetes or Slurm knows it.")
    ] = ""
    state_dir: Annotated[
        AbsolutePath, about("Where the journal is kept, from one start to the next.")
    ] = "/var/lib/lastcall"
    mode: Annotated[
        Literal["act", "observe"],
        about('"observe" tells the processes, but never cordons, drains or signals.'),
    ] = "act"
    socket: Socket = Socket()
    http: Http = Http()
    notices: Notices = Notices()
    flush: Flush = Flush()
    drain: Drain = Drain()
    hooks: Hooks = Hooks()
    gpu: Gpu = Gpu()
    report: Report = Report()
    log: Log = Log()
