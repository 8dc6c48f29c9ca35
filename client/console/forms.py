"""Reads visitors' forms, and refuses those that another site has sent."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from ottla.client.console.guards import is_own_origin, is_token
from ottla.client.console.views.failures import BAD_REQUEST, FORBIDDEN, TOO_LARGE, Refused

if TYPE_CHECKING:
    from starlette.requests import Request

    from ottla.client.console.visits import Visit

FORM_BYTES_MAX = 4 * 1024 * 1024
FIELDS_MAX = 200
FORM_KIND = "application/x-www-form-urlencoded"
TOKEN_FIELD = "form_token"


async def form_of(request: Request, visit: Visit | None) -> dict[str, str]:
    """Return the fields of a form that a page of this visit has sent. Raises Refused."""
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_KIND:
        raise Refused(BAD_REQUEST, f"a form is sent as {FORM_KIND}")
    host = headers.get("host", "")
    if not is_own_origin(headers.get("origin"), headers.get("sec-fetch-site"), host):
        raise Refused(FORBIDDEN, "this form was sent by a page of another site")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES_MAX:
            raise Refused(TOO_LARGE, f"a form has at most {FORM_BYTES_MAX} bytes")
    if body.count(b"&") >= FIELDS_MAX:
        raise Refused(BAD_REQUEST, f"the form has more than {FIELDS_MAX} fields")
    try:
        pairs = parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise Refused(BAD_REQUEST, "the form cannot be read") from None
    fields = dict(pairs)
    if visit is None or not is_token(fields.pop(TOKEN_FIELD, ""), visit.form_token):
        raise Refused(FORBIDDEN, "the form is too old: load its page again, and allow cookies")
    return fields
