"""Whose machine this is: by its firmware, else by who answers at the metadata addresses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lastcall.core.events import ProvidersFound
from lastcall.sources.base import Clock, Post
from lastcall.sources.dmi import DMI_ROOT, describe, provider_of, read_dmi
from lastcall.sources.http import Answer, MetadataClient, MetadataError
from lastcall.sources.imds import TOKEN_PATH, TTL_HEADER

ANSWER_SECONDS = 2.0
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0

_PROBE_TOKEN_SECONDS = 60
_TOKEN_FORM = re.compile(r"[A-Za-z0-9+/=_.~-]{1,1024}")


@dataclass(frozen=True, slots=True)
class Found:
    """The providers whose machine this is, in a fixed order, and how that was found."""

    providers: tuple[str, ...]
    detail: str


async def find_providers(
    endpoints: Mapping[str, str], clock: Clock, dmi_root: Path = DMI_ROOT
) -> Found:
    """Look once.

    Where the firmware names a provider, the others are asked for only at addresses of their own: a
    site that gave them one wants to be told what stands there.

    Args:
        endpoints: the metadata address of each provider.
        clock: the node's clocks.
        dmi_root: where the kernel shows the firmware's fields.
    """
    dmi = read_dmi(dmi_root)
    named, field = provider_of(dmi)
    asked = [
        provider
        for provider in PROBES
        if provider in endpoints
        and provider != named
        and endpoints[provider] != endpoints.get(named)
    ]
    answered = await asyncio.gather(
        *(_answers(provider, endpoints[provider], clock) for provider in asked)
    )
    how = {provider: f"{endpoints[provider]} answers as {provider}" for provider in asked}
    found = {provider for provider, does in zip(asked, answered, strict=True) if does}
    if named in endpoints:
        found.add(named)
        how[named] = f"DMI: {field} says {named}"
    providers = tuple(provider for provider in PROBES if provider in found)
    if providers:
        return Found(providers, "; ".join(how[provider] for provider in providers))
    addresses = " or ".join(sorted(set(endpoints.values())))
    return Found(
        (), f"no provider found: DMI says {describe(dmi)}, nothing known answers at {addresses}"
    )


async def detect_for_ever(
    endpoints: Mapping[str, str], *, post: Post, clock: Clock, dmi_root: Path = DMI_ROOT
) -> tuple[str, ...]:
    """Look until a provider is found, and return it; the service may not be up at boot.

    Posts what the first look came to, and what the last one found.

    Args:
        endpoints: the metadata address of each provider.
        post: takes the events.
        clock: the node's clocks.
        dmi_root: where the kernel shows the firmware's fields.
    """
    found = await find_providers(endpoints, clock, dmi_root)
    if not found.providers:
        post(ProvidersFound((), f"{found.detail}; looking again"))
    wait_seconds = FIRST_WAIT_SECONDS
    while not found.providers:
        await asyncio.sleep(wait_seconds)
        wait_seconds = min(LONGEST_WAIT_SECONDS, 2 * wait_seconds)
        found = await find_providers(endpoints, clock, dmi_root)
    post(ProvidersFound(found.providers, found.detail))
    return found.providers


async def _answers(provider: str, endpoint: str, clock: Clock) -> bool:
    """Whether the provider's own service is there; silence concludes nothing."""
    async with MetadataClient(endpoint, clock) as client:
        for probe in PROBES[provider]:
            try:
                if await probe(client):
                    return True
            except MetadataError:
                continue
    return False


async def _gives_aws_token(client: MetadataClient) -> bool:
    headers = {TTL_HEADER: str(_PROBE_TOKEN_SECONDS)}
    answer = await client.request(
        "PUT", TOKEN_PATH, headers=headers, timeout_seconds=ANSWER_SECONDS
    )
    if answer.status != 200 or "Metadata-Flavor" in answer.headers:
        return False
    return _TOKEN_FORM.fullmatch(answer.text().strip()) is not None


async def _is_aws_server(client: MetadataClient) -> bool:
    # From inside a container the token may be lost on its way, and this answer is not.
    answer = await client.request("GET", "/latest/meta-data/", timeout_seconds=ANSWER_SECONDS)
    return answer.headers.get("Server", "").startswith("EC2ws")


async def _is_gcp_server(client: MetadataClient) -> bool:
    answer = await client.request(
        "GET", "/", headers={"Metadata-Flavor": "Google"}, timeout_seconds=ANSWER_SECONDS
    )
    return answer.headers.get("Metadata-Flavor") == "Google"


async def _is_azure_server(client: MetadataClient) -> bool:
    answer = await client.request(
        "GET",
        "/metadata/instance",
        headers={"Metadata": "true"},
        params={"api-version": "2021-02-01"},
        timeout_seconds=ANSWER_SECONDS,
    )
    content = _json_object(answer)
    if answer.status == 400:
        # The service names the versions of its interface that it has.
        return "newest-versions" in content or "api-version" in str(content.get("error"))
    return answer.status == 200 and "compute" in content


def _json_object(answer: Answer) -> Mapping[str, object]:
    content = answer.json()
    return content if isinstance(content, dict) else {}


PROBES: Mapping[str, tuple[Callable[[MetadataClient], Awaitable[bool]], ...]] = {
    "aws": (_gives_aws_token, _is_aws_server),
    "gcp": (_is_gcp_server,),
    "azure": (_is_azure_server,),
}
"""What proves a provider, in the order in which providers are named."""
