"""The addresses of clouds that announce an end by one, and how a site's own address is asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta, timezone, tzinfo
from urllib.parse import urlsplit

from lastcall.core.model import Action


@dataclass(frozen=True, slots=True)
class TokenMode:
    """How a session token is asked for and shown."""

    path: str
    lifetime_header: str
    header: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What is asked, and how the answer is to be read.

    Attributes:
        endpoint: scheme, host and port.
        path: what is asked for there, with the query.
        code: the cloud's name; empty for a site's own address.
        action: what happens to the machine.
        reason: the words for it.
        zone: whose time a time is that names no zone.
        token_mode: how a token is had; ``None`` where none is used.
    """

    endpoint: str
    path: str
    code: str = ""
    action: Action = Action.UNKNOWN
    reason: str = "a time stands at the address that is asked"
    zone: tzinfo = UTC
    token_mode: TokenMode | None = None

    @property
    def scope(self) -> str:
        """The address for what is said about it, without its query, which may hold a secret."""
        return f"{self.endpoint}{self.path.partition('?')[0]}"


ALIBABA = Address(
    endpoint="http://100.100.100.200",
    path="/latest/meta-data/instance/spot/termination-time",
    code="alibaba",
    action=Action.TERMINATE,
    reason="Alibaba Cloud releases this preemptible instance",
    token_mode=TokenMode(
        path="/latest/api/token",
        lifetime_header="X-aliyun-ecs-metadata-token-ttl-seconds",
        header="X-aliyun-ecs-metadata-token",
    ),
)
"""Answers 404, or the time in UTC once the instance is to be released, five minutes before.

(Alibaba Cloud documentation, ECS: preemptible instances; access instance metadata in security
hardening mode.)
"""

TENCENT = Address(
    endpoint="http://metadata.tencentyun.com",
    path="/latest/meta-data/spot/termination-time",
    code="tencent",
    action=Action.TERMINATE,
    reason="Tencent Cloud takes this spot instance back",
    zone=timezone(timedelta(hours=8)),
)
"""Answers 404, or the time, which is in UTC+8 and does not say so.

(Tencent Cloud documentation, CVM: querying the reclamation status of a spot instance.)
"""

PRESETS = {"alibaba": ALIBABA, "tencent": TENCENT}


def address_of(url: str) -> Address:
    """Return what a preset's name or a site's own address means."""
    preset = PRESETS.get(url)
    if preset is not None:
        return preset
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return Address(endpoint=f"{parts.scheme}://{parts.netloc}", path=f"{parts.path or '/'}{query}")
