"""The site's own answers to notices, as the file has them."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from msgspec import Meta

from lastcall.config.forms import Form
from lastcall.config.table import LeadSeconds, Table, about
from lastcall.core.model import Kind

SOURCES = ("aws", "gcp", "azure", "shutdown", "file", "url", "schedule", "node", "gpu")
"""The names of the sources: those of their tables, and that of the GPUs' health."""

Respond = Literal["flush", "advise", "inform"]


def _pattern_of(names: Iterable[str]) -> Form:
    known = tuple(names)
    return Form(
        f'a pattern such as "{known[0]}" or "*" that matches one of {", ".join(known)}',
        lambda pattern: any(fnmatchcase(name, pattern) for name in known),
    )


class NoticeRule(Table, frozen=True, kw_only=True):
    """One answer of the site's own; what it leaves out stays as built in."""

    source: Annotated[str, _pattern_of(SOURCES), about("Which source saw it.")] = "*"
    kind: Annotated[str, _pattern_of(Kind), about("What is about to happen.")] = "*"
    code: Annotated[
        str,
        Meta(min_length=1),
        Form('a pattern such as "instance-retirement" or "*"'),
        about("The provider's own word for it."),
    ] = "*"
    respond: Annotated[
        Respond,
        about(
            '"flush": save and stop; "advise": ask for an early checkpoint; "inform": only show it.'
        ),
    ]
    drain: Annotated[bool | None, about("Whether the node is cordoned and drained for it.")] = None
    act_before_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=31622400)] | None,
        about("How long before it happens the processes are told."),
    ] = None
    expires_seconds: Annotated[
        LeadSeconds | None, about("How long after the first sight it ends by itself.")
    ] = None
    assumed_lead_seconds: Annotated[
        LeadSeconds | None,
        about("Time from first sight to the end where the provider names none."),
    ] = None
