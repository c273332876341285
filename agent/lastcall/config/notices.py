"""The settings of the sources: who announces that this machine will go, and what that means."""

from typing import Annotated, Literal, get_args

from msgspec import Meta
from msgspec.structs import asdict

from lastcall.config import forms
from lastcall.config.forms import Form, or_empty
from lastcall.config.rules import NoticeRule
from lastcall.config.table import LeadSeconds, PollSeconds, SlowPollSeconds, Switch, Table, about

_METADATA_ENDPOINT = "http://169.254.169.254"

Endpoint = Annotated[str, forms.ENDPOINT]
Provider = Literal["auto", "aws", "gcp", "azure"]
EndKind = Literal["preemption", "termination", "maintenance"]


class AwsNotices(Table, frozen=True):
    """Amazon EC2: its instance metadata service."""

    endpoint: Annotated[Endpoint, about("The metadata service.")] = _METADATA_ENDPOINT
    poll_seconds: Annotated[PollSeconds, about("Time between looks for a spot interruption.")] = 1.0
    lifecycle_poll_seconds: Annotated[
        PollSeconds, about("Time between looks for an Auto Scaling target state.")
    ] = 5.0
    rebalance_poll_seconds: Annotated[
        SlowPollSeconds, about("Time between looks for a rebalance recommendation.")
    ] = 10.0
    maintenance_poll_seconds: Annotated[
        SlowPollSeconds, about("Time between looks for scheduled events.")
    ] = 60.0
    token_ttl_seconds: Annotated[
        int, Meta(ge=1, le=21600), about("Lifetime asked for each session token (IMDSv2).")
    ] = 21600
    imds_v1: Annotated[bool, about("Ask without a token (IMDSv1) where no token can be had.")] = (
        False
    )


class GcpNotices(Table, frozen=True):
    """Google Compute Engine: its metadata server."""

    endpoint: Annotated[Endpoint, about("The metadata server.")] = _METADATA_ENDPOINT
    wait_seconds: Annotated[
        float,
        Meta(ge=0.1, le=300),
        about("How long a question is left open for the server to answer at the change."),
    ] = 20.0
    maintenance_poll_seconds: Annotated[
        SlowPollSeconds, about("Time between looks for upcoming maintenance.")
    ] = 60.0


class AzureNotices(Table, frozen=True):
    """Microsoft Azure: Scheduled Events of its instance metadata service."""

    endpoint: Annotated[Endpoint, about("The metadata service.")] = _METADATA_ENDPOINT
    poll_seconds: Annotated[PollSeconds, about("Time between looks for scheduled events.")] = 1.0
    acknowledge: Annotated[
        bool, about("Approve the event (StartRequests) once all is flushed and drained.")
    ] = False
    resource_name: Annotated[
        str,
        Form('the name as it stands in an event\'s Resources, or "" to ask the metadata service'),
        about("This machine's name among the resources of an event."),
    ] = ""
    api_version: Annotated[
        str,
        Meta(pattern=r"^\d{4}-\d{2}-\d{2}$"),
        Form('a version of the API, such as "2020-07-01"'),
        about("The version of the Scheduled Events API that is asked for."),
    ] = "2020-07-01"


class ShutdownNotices(Table, frozen=True):
    """The operating system's own shutdown, through a delay lock of logind."""

    enabled: Annotated[bool, about("Whether a shutdown of the machine is a notice.")] = True


class FileNotices(Table, frozen=True):
    """Clouds that announce by a file: its appearance is the notice, its removal withdraws it."""

    path: Annotated[
        str, or_empty(forms.ABSOLUTE_PATH, "none"), about("The file that is watched for.")
    ] = ""
    kind: Annotated[EndKind, about("What its appearance announces.")] = "preemption"
    poll_seconds: Annotated[PollSeconds, about("Time between looks at it.")] = 1.0


class UrlNotices(Table, frozen=True):
    """Clouds whose address answers 404 until a time stands there."""

    url: Annotated[
        str,
        Form(
            f'"alibaba", "tencent", {forms.URL.allowed}, or "" for none',
            lambda text: text in ("", "alibaba", "tencent") or forms.URL.accepts(text),
        ),
        about("The address that is asked, or the name of a cloud whose address is known."),
    ] = ""
    kind: Annotated[EndKind, about("What an answer announces.")] = "preemption"
    poll_seconds: Annotated[PollSeconds, about("Time between questions.")] = 5.0


class ScheduleNotices(Table, frozen=True):
    """An end known beforehand that nothing on the machine announces, such as a reservation's."""

    ends_at: Annotated[
        str,
        or_empty(forms.TIME, "none"),
        about("The end; for an AWS Capacity Block 30 minutes before that of the reservation."),
    ] = ""
    lead_seconds: Annotated[LeadSeconds, about("How long before the end it becomes a notice.")] = (
        600.0
    )


class NodeNotices(Table, frozen=True):
    """On Kubernetes: what other controllers write on this node: labels, taints, conditions."""

    enabled: Annotated[Switch, about("Whether they are early notices.")] = "auto"


def _written_rules(rules: tuple[NoticeRule, ...]) -> list[dict[str, object]]:
    return [
        {name: value for name, value in asdict(rule).items() if value is not None} for rule in rules
    ]


def _provider_names(value: object) -> object:
    if value == "none":
        return []
    return [value] if value in get_args(Provider) else value


def _provider_text(names: tuple[Provider, ...]) -> object:
    if not names:
        return "none"
    return names[0] if len(names) == 1 else names


_CLOUDS = [name for name in get_args(Provider) if name != "auto"]
_PROVIDER = Form(
    '"auto", "none", "aws", "gcp", "azure", or a list of the last three',
    accepts=lambda names: names == ("auto",) or "auto" not in names,
    prepare=_provider_names,
    write=_provider_text,
    schema={
        "anyOf": [
            {"enum": ["auto", "none", *_CLOUDS]},
            {"type": "array", "items": {"enum": _CLOUDS}, "uniqueItems": True},
        ]
    },
)


class Notices(Table, frozen=True):
    """Who announces that this machine will go, and how each announcement is answered."""

    provider: Annotated[
        tuple[Provider, ...],
        _PROVIDER,
        about('The cloud whose notices are listened for; "auto" finds out.'),
    ] = ("auto",)
    rules: Annotated[
        tuple[NoticeRule, ...],
        Form("a list of tables, as [[notices.rules]] makes it", write=_written_rules),
        about("The site's own answers; the first that matches changes the built-in one."),
    ] = ()
    aws: AwsNotices = AwsNotices()
    gcp: GcpNotices = GcpNotices()
    azure: AzureNotices = AzureNotices()
    shutdown: ShutdownNotices = ShutdownNotices()
    file: FileNotices = FileNotices()
    url: UrlNotices = UrlNotices()
    schedule: ScheduleNotices = ScheduleNotices()
    node: NodeNotices = NodeNotices()
