"""Asks a service with a session token where it grants one, and without where it does not."""

from __future__ import annotations

import re

from lastcall.sources.base import Clock
from lastcall.sources.http import Answer, MetadataClient, MetadataError, require
from lastcall.sources.url_presets import TokenMode

ANSWER_SECONDS = 2.0
"""The service is near: what takes longer than this does not come."""

LIFETIME_SECONDS = 21600
"""The life asked for each token, the longest that Alibaba Cloud grants."""

RENEW_AT = 0.9
"""Share of its life after which a token is renewed: one used to its last second comes too late."""

WITHOUT_TOKEN_SECONDS = 300.0
"""How long a service is asked without a token before one is tried for again."""

_TOKEN_FORM = re.compile(r"[\x21-\x7e]{1,1024}")


class TokenAsker:
    """Asks with a token that is replaced when it ends or is refused.

    Args:
        client: what asks.
        clock: the node's clocks; the monotonic one ages the token.
        mode: how a token is had; ``None`` to ask without one.
    """

    def __init__(self, client: MetadataClient, clock: Clock, mode: TokenMode | None) -> None:
        self._client = client
        self._clock = clock
        self._mode = mode
        self._token = ""
        self._hold_until = 0.0
        self._why_none = ""

    async def get(self, path: str) -> Answer:
        """Return the answer to a GET, whatever its status.

        Raises:
            MetadataError: no answer came, or it was refused and no token can be had.
        """
        if self._mode is None:
            return await self._ask(path)
        if self._clock.monotonic() >= self._hold_until:
            await self._renew(self._mode)
        answer = await self._ask(path)
        if answer.status in (401, 403):
            self._token = ""
            await self._renew(self._mode)
            answer = await self._ask(path)
        if answer.status in (401, 403):
            why = "a new token is refused" if self._token else f"no token: {self._why_none}"
            raise MetadataError("unauthorized", f"{answer.asked}: status {answer.status}; {why}")
        return answer

    async def _ask(self, path: str) -> Answer:
        headers = {self._mode.header: self._token} if self._mode and self._token else None
        return await self._client.request(
            "GET", path, headers=headers, timeout_seconds=ANSWER_SECONDS
        )

    async def _renew(self, mode: TokenMode) -> None:
        """Get a token, or go on without a new one: a service without token mode needs none."""
        asked_at = self._clock.monotonic()
        try:
            answer = await self._client.request(
                "PUT",
                mode.path,
                headers={mode.lifetime_header: str(LIFETIME_SECONDS)},
                timeout_seconds=ANSWER_SECONDS,
            )
            token = require(answer).text().strip()
        except MetadataError as failure:
            self._why_none = failure.detail
            if failure.connected and failure.result != "timeout":
                self._hold_until = asked_at + WITHOUT_TOKEN_SECONDS
            return
        if _TOKEN_FORM.fullmatch(token):
            self._token = token
            self._hold_until = asked_at + RENEW_AT * LIFETIME_SECONDS
        else:
            self._why_none = f"{answer.asked}: the answer is no token"
