"""A console in the test's own event loop, and a client for its pages."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from ottla.client.console.app import Console, ConsoleOptions
from ottla.client.console.connections import ClusterAccess
from ottla.client.console.visits import Visits
from ottla.client.process.environment import real_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ottla.client.console.record_runs import Decode

BASE = "http://127.0.0.1:8080"


@asynccontextmanager
async def console_of(
    bootstrap: str,
    properties: Mapping[str, str] | None = None,
    *,
    allow_changes: bool = False,
    must_log_in: bool = False,
    decode: Decode | None = None,
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of a console of that cluster."""
    visits = Visits(
        ClusterAccess(bootstrap, properties or {}, real_environment(), decode),
        must_log_in=must_log_in,
    )
    console = Console(visits, ConsoleOptions(bootstrap, allow_changes, version="1.2.3"))
    transport = httpx.ASGITransport(console.application)
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as browser:
        yield browser
    visits.close()


def form_token_of(page: str) -> str:
    """The token in the forms of a page."""
    found = re.search(r'name="form_token" value="(\w+)"', page)
    assert found is not None
    return found[1]


def words_of(page: str) -> str:
    """A page without its tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())
