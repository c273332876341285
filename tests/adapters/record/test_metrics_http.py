"""A scraper gets the format that it asks for."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from lastcall.core.estimates import JobAdvice
from lastcall.core.model import Node
from lastcall.record.metrics import Metrics


@pytest.mark.parametrize(
    ("accept", "content_type", "last_line"),
    [
        ("text/plain", "text/plain", "lastcall_node_cordoned 0.0"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text", "# EOF"),
    ],
)
async def test_the_format_is_the_one_that_the_scraper_accepts(
    accept: str, content_type: str, last_line: str
) -> None:
    metrics = Metrics(
        Node,
        monotonic=lambda: 0.0,
        wall=lambda: 0.0,
        advice=lambda _, __: JobAdvice(None, "unknown", None),
        version="1.2.3",
    )
    app = web.Application()
    app.router.add_get("/metrics", metrics.handler())

    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/metrics", headers={"Accept": accept})
        lines = (await answer.text()).splitlines()

    assert answer.status == 200
    assert answer.content_type == content_type
    assert last_line in lines
