"""How EC2's instance metadata service is asked: with a session token, renewed before it ends.

Source: AWS EC2 user guide, "Use the Instance Metadata Service to access instance metadata".
"""

from __future__ import annotations

import asyncio
import re

from lastcall.sources.base import Clock
from lastcall.sources.http import Answer, MetadataClient, MetadataError, require

TOKEN_PATH = "/latest/api/token"  # noqa: S105 — an address
TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 — a header's name
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"

ANSWER_SECONDS = 2.0
"""The service is one hop away: what takes longer than this does not come."""

RENEW_AT = 0.9
"""Share of its life after which a token is renewed: one used to its last second comes too late."""

RENEWAL_RETRY_SECONDS = 5.0
"""How soon a renewal that failed is tried again while the old token still holds."""

WITHOUT_TOKEN_SECONDS = 300.0
"""How long the service is asked without a token (IMDSv1) before one is tried for again."""

_TOKEN_FORM = re.compile(r"[\x21-\x7e]{1,1024}")

_HOP_LIMIT = (
    "its answer may be lost on the way into a container: run on the host's network, or raise the "
    "instance's metadata hop limit to 2"
)


def looks_like_token(text: str) -> bool:
    """Whether a text can be a session token, which is one opaque word."""
    return _TOKEN_FORM.fullmatch(text) is not None


class Imds:
    """Asks the service with one token for all callers.

    Args:
        client: what asks; its clock's monotonic time ages the token.
        clock: the node's clocks.
        ttl_seconds: the life asked for each token, 1 to 21600.
        version_1: whether to ask without a token where none can be had.
    """

    def __init__(
        self, client: MetadataClient, clock: Clock, *, ttl_seconds: int, version_1: bool
    ) -> None:
        self._client = client
        self._clock = clock
        self._ttl_seconds = ttl_seconds
        self._version_1 = version_1
        self._lock = asyncio.Lock()
        self._token = ""
        self._renew_at = 0.0
        self._ends_at = 0.0
        self._without_token_until = 0.0
        self._why_without_token = ""
        self._failure: MetadataError | None = None
        self._failed_at = 0.0

    async def get(self, path: str) -> Answer:
        """Return the answer to a GET; its status is any but 401 and 403.

        A token that is refused is replaced and the question repeated, once.

        Raises:
            MetadataError: no answer came, no token could be had, or all were refused.
        """
        token = await self._current_token()
        answer = await self._ask(path, token)
        if answer.status == 401:
            self._drop(token)
            token = await self._current_token()
            answer = await self._ask(path, token)
        if answer.status == 401:
            needs_one = f"it needs a token; {self._why_without_token}"
            why = "a new token is refused" if token else needs_one
            raise MetadataError("unauthorized", f"{answer.asked}: {why}")
        return _not_disabled(answer)

    async def _ask(self, path: str, token: str) -> Answer:
        headers = {TOKEN_HEADER: token} if token else {}
        return await self._client.request(
            "GET", path, headers=headers, timeout_seconds=ANSWER_SECONDS
        )

    def _drop(self, token: str) -> None:
        # Another caller may have replaced it meanwhile.
        if token == self._token:
            self._token = ""
            self._without_token_until = 0.0

    async def _current_token(self) -> str:
        """Return the token to use; empty for none (IMDSv1).

        Raises:
            MetadataError: there is none, and version 1 is not allowed.
        """
        came_at = self._clock.monotonic()
        async with self._lock:
            now = self._clock.monotonic()
            if now < (self._renew_at if self._token else self._without_token_until):
                return self._token
            if self._failure is not None and self._failed_at > came_at:
                # Whoever waited for this attempt does not make another one.
                raise _again(self._failure)
            try:
                await self._renew()
            except MetadataError as failure:
                self._bear(failure)
            return self._token

    async def _renew(self) -> None:
        # The life counts from before the question: the token must never outlive its own idea of it.
        asked_at = self._clock.monotonic()
        answer = await self._client.request(
            "PUT",
            TOKEN_PATH,
            headers={TTL_HEADER: str(self._ttl_seconds)},
            timeout_seconds=ANSWER_SECONDS,
        )
        token = require(_not_disabled(answer)).text().strip()
        if not looks_like_token(token):
            raise MetadataError("malformed", f"{answer.asked}: the answer is no token")
        lasts_seconds = min(self._ttl_seconds, _granted_seconds(answer, self._ttl_seconds))
        self._token = token
        self._renew_at = asked_at + RENEW_AT * lasts_seconds
        self._ends_at = asked_at + lasts_seconds
        self._failure = None

    def _bear(self, failure: MetadataError) -> None:
        """Go on without a new token where that can be done."""
        now = self._clock.monotonic()
        if self._token and now < self._ends_at:
            self._renew_at = min(now + RENEWAL_RETRY_SECONDS, self._ends_at)
            return
        self._token = ""
        lost = failure.result == "timeout" and failure.connected
        if self._version_1:
            # A service that nobody reaches may only be restarting, and then grants tokens again.
            pause_seconds = WITHOUT_TOKEN_SECONDS if failure.connected else RENEWAL_RETRY_SECONDS
            self._without_token_until = now + pause_seconds
            self._why_without_token = _HOP_LIMIT if lost else failure.detail
            return
        if lost:
            failure = MetadataError("timeout", f"{failure.detail}; {_HOP_LIMIT}")
        self._failure, self._failed_at = failure, now
        raise failure


def _not_disabled(answer: Answer) -> Answer:
    if answer.status == 403:
        raise MetadataError("unauthorized", f"{answer.asked}: metadata service disabled (403)")
    return answer


def _granted_seconds(answer: Answer, asked_seconds: int) -> int:
    """Return the life that a token was granted, which may be shorter than what was asked for."""
    value = answer.headers.get(TTL_HEADER, "")
    return int(value) if re.fullmatch(r"[1-9][0-9]{0,4}", value) else asked_seconds


def _again(failure: MetadataError) -> MetadataError:
    return MetadataError(
        failure.result, failure.detail, failure.retry_after_seconds, connected=failure.connected
    )
