"""Checks the token that the agent shows to Kubernetes: how long it lasts, and who renews it."""

from __future__ import annotations

import base64
import binascii
import json
import time
from typing import Any

from lastcall.cli.check.findings import Findings
from lastcall.cli.terminal import duration
from lastcall.drain.kubernetes.config import Cluster
from lastcall.drain.kubernetes.credentials import CredentialError, FixedCredential

CHECK = "token"

RENEWED_AT = 0.8
"""The share of its life after which the kubelet renews a token.

Source: Kubernetes documentation, service accounts, "Bound service account tokens".
"""


async def check_credentials(cluster: Cluster, found: Findings) -> None:
    """Add how long the token lasts, where it says so itself."""
    try:
        credential = await cluster.credentials.current()
    except CredentialError as error:
        found.problem(
            CHECK, str(error), "mount the service account's token, or mend the kubeconfig"
        )
        return
    claims = claims_of(credential.token)
    ends_unix, begun_unix = (_number(claims.get(name)) for name in ("exp", "iat"))
    is_fixed = isinstance(cluster.credentials, FixedCredential)
    if ends_unix is None:
        if claims:
            found.note(CHECK, "it never ends", "use a token that is bound to the agent's pod")
        return
    left_seconds = ends_unix - time.time()
    if left_seconds <= 0:
        found.problem(
            CHECK,
            f"it ended {duration(-left_seconds)} ago by this clock",
            "renew it; in a pod look at the kubelet, which should have; check the clock",
        )
    elif is_fixed:
        found.warning(
            CHECK,
            f"it ends in {duration(left_seconds)}, and nothing renews it",
            "name a tokenFile or an exec plugin in the kubeconfig",
        )
    elif begun_unix is not None and left_seconds < (1 - RENEWED_AT) / 2 * (ends_unix - begun_unix):
        found.warning(
            CHECK,
            f"it ends in {duration(left_seconds)} and should have been renewed by now",
            "look at the kubelet, or at what else writes the token's file",
        )
    else:
        found.ok(CHECK, f"it ends in {duration(left_seconds)} and is renewed before that")


def claims_of(token: str) -> dict[str, Any]:
    """Return what a JSON Web Token says, unchecked; nothing where it is none (RFC 7519)."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        content = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
