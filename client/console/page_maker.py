"""Builds the console's responses: HTML pages from templates, JSON documents, and failures as
either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jinja2 import Environment as Templates
from jinja2 import FileSystemLoader, StrictUndefined
from starlette.responses import Response

from ottla.client.console.views.alive_view import pictures_of
from ottla.client.console.views.failures import sentence_of, status_of
from ottla.client.console.views.series import chart_of
from ottla.client.console.views.wording import count_text, duration_text, size_text, time_text
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.console.views.asked import Document
    from ottla.client.console.visits import Visit

FOLDER = Path(__file__).parent
HTML = "text/html; charset=utf-8"
JSON = "application/json"
NOT_STORED = {"cache-control": "no-store"}


class Facts(NamedTuple):
    """Values that every page shows besides its content."""

    bootstrap: str
    allow_changes: bool
    must_log_in: bool


def encoded(text: str) -> bytes:
    """Encode as UTF-8. A JSON value in a record may contain unpaired surrogates, which UTF-8 does
    not allow: they become question marks, so that the page can still be shown."""
    return text.encode("utf-8", "replace")


def quoted(text: object) -> str:
    """Encode a text as one part of an address."""
    return quote(str(text), safe="")


def query_of(values: Mapping[str, object], **changes: object) -> str:
    """Return the query of an address: some values, with changes, without None and empty values."""
    merged = {**values, **changes}
    kept = {name: value for name, value in merged.items() if value not in (None, "", False)}
    return f"?{urlencode(kept)}" if kept else ""


def make_templates() -> Templates:
    """Return the templates; they escape every value and refuse undefined names."""
    templates = Templates(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "size": size_text,
        "count": count_text,
        "time": time_text,
        "duration": duration_text,
        "quoted": quoted,
    }
    templates.globals["query_of"] = query_of
    templates.globals["pictures_of"] = pictures_of
    templates.globals["chart_of"] = chart_of
    return templates


class PageMaker:
    """Builds responses. Owned by one console."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._templates = make_templates()

    def page(
        self, template: str, document: Document, visit: Visit | None, status: int = 200
    ) -> Response:
        """A page of HTML."""
        shown: dict[str, Any] = {
            "facts": self._facts,
            "user": None if visit is None else visit.user,
            "form_token": "" if visit is None else visit.form_token,
            "shown": document,
        }
        text = self._templates.get_template(template).render(shown)
        return Response(encoded(text), status, dict(NOT_STORED), HTML)

    def part(self, template: str, document: Document) -> str:
        """A part of a page, as HTML."""
        return self._templates.get_template(template).render({"shown": document})

    def json(self, document: Document, status: int = 200) -> Response:
        """A document as JSON."""
        text = json.dumps(document, ensure_ascii=False)
        return Response(encoded(text), status, dict(NOT_STORED), JSON)

    def failure(self, error: Exception, visit: Visit | None, *, as_json: bool) -> Response:
        """Return the response to a request that failed in an expected way."""
        status, sentence = status_of(error), sentence_of(error)
        if as_json:
            return self.json({"error": sentence}, status)
        return self.page("failure.html", {"status": status, "sentence": sentence}, visit, status)
