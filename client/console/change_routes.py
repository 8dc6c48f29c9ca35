"""The routes of changes: each needs a form from the console's own pages, and
``--allow-changes``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from starlette.responses import RedirectResponse
from starlette.routing import Route

from ottla.client.console.changing import (
    change_setting,
    create_topic,
    preview_positions,
    send_record,
    set_positions,
)
from ottla.client.console.forms import form_of
from ottla.client.console.views.failures import EXPECTED, FORBIDDEN, Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.views.asked import Document
    from ottla.client.console.visits import Visit

    Change = Callable[[ConsoleConnection, str, Mapping[str, str]], Awaitable[str]]
    Endpoint = Callable[[Request], Awaitable[Response]]

SEE_OTHER = 303
CHANGES: dict[str, Change] = {
    "/topics": create_topic,
    "/topics/{topic}/settings": change_setting,
    "/topics/{topic}/messages": send_record,
    "/group/positions": set_positions,
}
PREVIEW = "/group/preview"


class Changeable(Protocol):
    """The parts of the console that the routes of changes use."""

    @property
    def allows_changes(self) -> bool: ...

    def visit_of(self, request: Request) -> Visit | None: ...

    def connection_of(self, request: Request) -> ConsoleConnection: ...

    def failure(self, request: Request, error: Exception) -> Response: ...

    def page(self, template: str, document: Document, visit: Visit | None) -> Response: ...


def change_routes(console: Changeable) -> list[Route]:
    """Return the routes that receive forms."""
    routes = [
        Route(path, _changing(console, change), methods=["POST"])
        for path, change in CHANGES.items()
    ]
    return [*routes, Route(PREVIEW, _previewing(console), methods=["POST"])]


async def _allowed_form(
    console: Changeable, request: Request
) -> tuple[ConsoleConnection, dict[str, str]]:
    """Return the visitor's connection and the form. Raises Refused."""
    if not console.allows_changes:
        raise Refused(FORBIDDEN, "this console only shows: start it with --allow-changes")
    fields = await form_of(request, console.visit_of(request))
    return console.connection_of(request), fields


def _changing(console: Changeable, change: Change) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            connection, fields = await _allowed_form(console, request)
            target = await change(connection, request.path_params.get("topic", ""), fields)
        except (*EXPECTED, ValueError) as error:
            return console.failure(request, error)
        return RedirectResponse(target, SEE_OTHER)

    return answer


def _previewing(console: Changeable) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            connection, fields = await _allowed_form(console, request)
            document = await preview_positions(connection, fields)
        except (*EXPECTED, ValueError) as error:
            return console.failure(request, error)
        return console.page("preview.html", document, console.visit_of(request))

    return answer
