"""The result of a successful login. Pure."""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple


class Authenticated(NamedTuple):
    """The user of a successful login, and the credential that it used.

    When ``credential`` changes, the broker ends the session: it is mechanism and user, or kind and
    id of a token. ``expires_ms`` is wall time, None for a credential that does not expire."""

    user: str
    credential: tuple[str, str]
    expires_ms: int | None = None
    is_token: bool = False
