"""Parts of responses: downloads, cookies, redirects, and the guard before all of them."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from ottla.client.console.guards import HEADERS, is_own_host
from ottla.client.console.page_maker import NOT_STORED
from ottla.client.console.views.failures import Refused
from ottla.client.console.visits import COOKIE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ottla.client.console.visits import Visit

MISDIRECTED = 421


async def going_on(
    first: bytes, others: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Yield a first piece, made before the response to detect errors, then the others."""
    async with aclosing(others):
        yield first
        async for piece in others:
            yield piece


def with_retry(answer: Response, error: Exception) -> Response:
    """Add Retry-After to the response, if the time is known."""
    if isinstance(error, Refused) and error.retry_after_s is not None:
        answer.headers["retry-after"] = str(error.retry_after_s)
    return answer


def as_file(name: str) -> dict[str, str]:
    """Return the headers of a download."""
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return {**NOT_STORED, "content-disposition": disposition}


def own_path(text: str) -> str:
    """Return a path of the console for a redirect; the start page for any other address, such as
    another site."""
    is_own = text.startswith("/") and not text.startswith("//") and "\\" not in text
    return text if is_own and text.isprintable() else "/"


def set_cookie(answer: Response, visit: Visit) -> None:
    """Set the visit's cookie, which scripts and other sites cannot read."""
    answer.set_cookie(COOKIE, visit.name, httponly=True, samesite="strict", path="/")


def guarded(application: ASGIApp, hosts: frozenset[str]) -> ASGIApp:
    """Wrap the application with the check of the Host header and the headers of every response."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if not is_own_host(host, hosts):
            text = (
                "This console does not answer under that name; to allow it, start the console "
                "with --allow-host NAME.\n"
            )
            refusal = Response(text, MISDIRECTED, media_type="text/plain")
            await refusal(scope, receive, send_with_headers)
            return
        await application(scope, receive, send_with_headers)

    return guard
