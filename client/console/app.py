"""The console as an ASGI application: routes, guards, log-in."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ottla.client.console.alive import alive_events
from ottla.client.console.answers import (
    as_file,
    going_on,
    guarded,
    own_path,
    set_cookie,
    with_retry,
)
from ottla.client.console.browsing import find_record
from ottla.client.console.change_routes import change_routes
from ottla.client.console.downloads import download_lines, download_parquet
from ottla.client.console.forms import form_of
from ottla.client.console.openapi import describe, plain_path
from ottla.client.console.page_maker import FOLDER, NOT_STORED, Facts, PageMaker
from ottla.client.console.page_table import PAGES, RECORD_PARAMETERS
from ottla.client.console.streams import ALIVE_PAGES_MAX, Tails
from ottla.client.console.views.asked import BadRequest, Question, checked_name
from ottla.client.console.views.failures import EXPECTED, NOT_FOUND, UNAUTHORIZED, Refused
from ottla.client.console.views.results import RESULTS
from ottla.client.console.visits import COOKIE, MECHANISMS, TypedLogin
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import AuthenticationFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from starlette.requests import Request

    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.page_table import PageSpec
    from ottla.client.console.views.asked import Document
    from ottla.client.console.visits import Visit, Visits

    Endpoint = Callable[[Request], Awaitable[Response]]
    Download = Callable[[ConsoleConnection, Question, Tails], AsyncGenerator[bytes, None]]

SEE_OTHER = 303
WRONG_LOGIN = "The user, the password or the mechanism is wrong."
DOWNLOADS: dict[str, tuple[Download, str]] = {
    "jsonl": (download_lines, "application/x-ndjson"),
    "parquet": (download_parquet, "application/vnd.apache.parquet"),
}
STATIC = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class ConsoleOptions(NamedTuple):
    """How the console was started.

    Attributes:
        bootstrap: The addresses that pages show.
        allow_changes: Whether visitors may change things; False by default.
        hosts: Names under which the console answers, besides numeric addresses and ``localhost``.
        version: Ottla's version.
    """

    bootstrap: str
    allow_changes: bool = False
    hosts: frozenset[str] = frozenset()
    version: str = ""


class Console:
    """The pages of one cluster. ``application`` is the ASGI application for a web server."""

    def __init__(self, visits: Visits, options: ConsoleOptions) -> None:
        self._visits = visits
        self._options = options
        self._tails, self._alive_pages = Tails(), Tails(ALIVE_PAGES_MAX)
        self._pages = PageMaker(Facts(options.bootstrap, options.allow_changes, visits.must_log_in))
        routes = [Route("/", self._start), Route("/login", self._login, methods=["GET", "POST"])]
        routes.append(Route("/logout", self._logout, methods=["POST"]))
        routes.append(Route("/api/openapi.json", self._openapi))
        routes += [Route(f"/static/{name}", self._static(name)) for name in STATIC]
        routes.append(Route("/topics/{topic}/tail", self._tail))
        routes.append(Route("/topics/{topic}/alive/events", self._alive))
        routes.append(Route("/alive/events", self._alive))
        for ending, (make, kind) in DOWNLOADS.items():
            path = f"/topics/{{topic}}/messages.{ending}"
            routes.append(Route(path, self._download(make, ending, kind)))
        routes.append(Route("/topics/{topic}/content", self._content))
        for spec in PAGES:
            # Starlette's own reading of numbers fails at 4300 digits.
            path = plain_path(spec.path)
            routes.append(Route(path, self._endpoint(spec, as_json=False)))
            routes.append(Route(f"/api{path}", self._endpoint(spec, as_json=True)))
        # Registered after the pages: where a path shows and changes, each has its own method.
        routes += change_routes(self)
        handlers = {NOT_FOUND: self._not_found}
        self.application = guarded(
            Starlette(routes=routes, exception_handlers=handlers), options.hosts
        )

    def ends_when(self, is_ending: Callable[[], bool]) -> None:
        """End the live pages once the function returns true, within about a second."""
        self._tails.is_ending = self._alive_pages.is_ending = is_ending

    @property
    def allows_changes(self) -> bool:
        """Whether visitors may make changes."""
        return self._options.allow_changes

    def failure(self, request: Request, error: Exception) -> Response:
        """Return the page that explains why a request failed."""
        return self._pages.failure(error, self.visit_of(request), as_json=False)

    def visit_of(self, request: Request) -> Visit | None:
        """Return the visit of the request's cookie."""
        return self._visits.find(request.cookies.get(COOKIE))

    def connection_of(self, request: Request) -> ConsoleConnection:
        """Return the connection for a request. Raises Refused if the visitor has to log in."""
        connection = self._visits.connection_of(self.visit_of(request))
        if connection is None:
            raise Refused(UNAUTHORIZED, "log in first")
        return connection

    def _endpoint(self, spec: PageSpec, *, as_json: bool) -> Endpoint:
        async def answer(request: Request) -> Response:
            visit = self.visit_of(request)
            try:
                connection = self.connection_of(request)
                question = question_of(request)
                if spec.is_strict:
                    question.check_names(one.name for one in spec.parameters)
                document = await spec.read(connection, question)
            except EXPECTED as error:
                if not as_json and self._must_log_in(error):
                    return self._to_login(request)
                return self._pages.failure(error, visit, as_json=as_json)
            if as_json:
                return self._pages.json(document)
            return self.page(spec.template, document, visit)

        return answer

    async def _tail(self, request: Request) -> Response:
        try:
            question = record_question_of(request)
            events = self._tails.events(self.connection_of(request), question)
            first = await anext(events)
        except EXPECTED as error:
            return self._pages.failure(error, self.visit_of(request), as_json=True)
        return StreamingResponse(
            going_on(first, events), headers=NOT_STORED, media_type="text/event-stream"
        )

    async def _alive(self, request: Request) -> Response:
        """Send the page ``Alive`` whenever it has changed, as server-sent events."""

        def render(document: Document) -> str:
            return self._pages.part("alive_part.html", document)

        try:
            question = question_of(request)
            events = alive_events(self.connection_of(request), question, self._alive_pages, render)
            first = await anext(events)
        except EXPECTED as error:
            return self._pages.failure(error, self.visit_of(request), as_json=True)
        return StreamingResponse(
            going_on(first, events), headers=NOT_STORED, media_type="text/event-stream"
        )

    def _download(self, make: Download, ending: str, kind: str) -> Endpoint:
        async def answer(request: Request) -> Response:
            try:
                question = record_question_of(request)
                pieces = make(self.connection_of(request), question, self._tails)
                first = await anext(pieces)
            except EXPECTED as error:
                return self._no_file(request, error)
            name = f"{question.path['topic']}.{ending}"
            return StreamingResponse(
                going_on(first, pieces), headers=as_file(name), media_type=kind
            )

        return answer

    async def _content(self, request: Request) -> Response:
        """Return the bytes of a record's key or value, as a file that browsers do not display."""
        try:
            question = question_of(request)
            topic, part = question.path["topic"], question.text("part", "value")
            partition, offset = question.number("partition", 0), question.number("offset", 0)
            if part not in ("key", "value"):
                raise BadRequest("part is key or value")
            record = await find_record(
                self.connection_of(request), topic, partition, offset, is_raw=True
            )
        except EXPECTED as error:
            return self._no_file(request, error)
        content = record.key if part == "key" else record.value
        headers = as_file(f"{topic}-{partition}-{offset}-{part}.bin")
        return Response(content or b"", headers=headers, media_type="application/octet-stream")

    def _no_file(self, request: Request, error: Exception) -> Response:
        """Return why there is no download: a page for browsers, and JSON for programs, which do not
        ask for HTML."""
        as_json = "text/html" not in request.headers.get("accept", "")
        return self._pages.failure(error, self.visit_of(request), as_json=as_json)

    def page(
        self, template: str, document: dict[str, object], visit: Visit | None, status: int = 200
    ) -> Response:
        """Return a page; if it may contain forms, with a visit for their token."""
        if visit is None and (self._options.allow_changes or template == "login.html"):
            visit = self._visits.begin()
        answer = self._pages.page(template, document, visit, status)
        if visit is not None:
            set_cookie(answer, visit)
        return answer

    def _must_log_in(self, error: Exception) -> bool:
        return isinstance(error, Refused) and error.status == UNAUTHORIZED

    def _to_login(self, request: Request) -> Response:
        target = request.url.path
        if request.url.query:
            target += f"?{request.url.query}"
        return RedirectResponse(f"/login?next={quote(target, safe='')}", SEE_OTHER)

    async def _start(self, request: Request) -> Response:
        return RedirectResponse("/cluster", SEE_OTHER)

    async def _openapi(self, request: Request) -> Response:
        rows = [(spec.path, spec.summary, spec.parameters) for spec in PAGES]
        return self._pages.json(describe(self._options.version, rows, RESULTS))

    async def _not_found(self, request: Request, error: Exception) -> Response:
        refused = Refused(NOT_FOUND, "there is no such page")
        as_json = request.url.path.startswith("/api/")
        return self._pages.failure(refused, self.visit_of(request), as_json=as_json)

    async def _login(self, request: Request) -> Response:
        visit = self.visit_of(request)
        document: dict[str, object] = {
            "next": own_path(request.query_params.get("next", "")),
            "mechanisms": MECHANISMS,
            "mechanism": self._visits.mechanism,
            "sentence": None,
        }
        if request.method != "POST":
            return self.page("login.html", document, visit)
        try:
            fields = await form_of(request, visit)
            assert visit is not None
            mechanism = fields.get("mechanism", "")
            if mechanism not in MECHANISMS:
                raise Refused(UNAUTHORIZED, f"a login is made with {', '.join(MECHANISMS)}")
            host = "" if request.client is None else request.client.host
            visit = await self._visits.log_in(
                visit,
                TypedLogin(fields.get("user", ""), fields.get("password", ""), mechanism, host),
            )
        except (*EXPECTED, ValueError) as error:
            is_wrong = isinstance(error, AuthenticationFailed)
            document["sentence"] = WRONG_LOGIN if is_wrong else str(error)
            status = error.status if isinstance(error, Refused) else UNAUTHORIZED
            return with_retry(self.page("login.html", document, visit, status), error)
        answer = RedirectResponse(own_path(fields.get("next", "")), SEE_OTHER)
        set_cookie(answer, visit)
        return answer

    async def _logout(self, request: Request) -> Response:
        visit = self.visit_of(request)
        try:
            await form_of(request, visit)
        except Refused as error:
            return self._pages.failure(error, visit, as_json=False)
        assert visit is not None
        self._visits.end(visit)
        answer = RedirectResponse("/login" if self._visits.must_log_in else "/", SEE_OTHER)
        answer.delete_cookie(COOKIE)
        return answer

    def _static(self, name: str) -> Endpoint:
        content = (FOLDER / "static" / name).read_bytes()
        tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        headers = {"cache-control": "no-cache", "etag": tag}

        async def answer(request: Request) -> Response:
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers=headers)
            return Response(content, headers=headers, media_type=STATIC[name])

        return answer


def question_of(request: Request) -> Question:
    """Return the parameters of a request. Raises BadRequest for a too long name in the path."""
    path = {name: checked_name(name, str(value)) for name, value in request.path_params.items()}
    return Question(path, request.query_params)


def record_question_of(request: Request) -> Question:
    """Return the parameters of a live tail or a download. Raises BadRequest, also for an unknown
    name: a misspelt filter would let all records pass."""
    question = question_of(request)
    question.check_names(one.name for one in RECORD_PARAMETERS)
    return question
