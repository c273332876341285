"""What tests of the simulated metadata services share: a clock set by hand, a reader for EC2's."""

from __future__ import annotations

import aiohttp

AWS_META = "/latest/meta-data"
AWS_TOKEN = "/latest/api/token"


class HandClock:
    """A clock that stands still until it is set."""

    def __init__(self, seconds: float) -> None:
        """Start at ``seconds``."""
        self.seconds = seconds

    def __call__(self) -> float:
        """Return the time it was set to."""
        return self.seconds


async def aws_token(http: aiohttp.ClientSession, url: str, ttl_seconds: int = 21_600) -> str:
    """Return a new token of EC2's metadata service."""
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(ttl_seconds)}
    async with http.put(url + AWS_TOKEN, headers=headers) as answer:
        assert answer.status == 200
        return await answer.text()


class AwsReader:
    """Reads paths of EC2's metadata service with one token."""

    def __init__(self, http: aiohttp.ClientSession, url: str, token: str) -> None:
        """Read below ``url``."""
        self.http = http
        self.url = url
        self.headers = {"X-aws-ec2-metadata-token": token}

    async def status(self, path: str) -> int:
        """Return the status of the answer."""
        async with self.http.get(self.url + path, headers=self.headers) as answer:
            return answer.status

    async def text(self, path: str) -> str:
        """Return the body of an answer that must be 200."""
        async with self.http.get(self.url + path, headers=self.headers) as answer:
            assert answer.status == 200, path
            return await answer.text()
