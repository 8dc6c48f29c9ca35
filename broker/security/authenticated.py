"""What a login that has succeeded leaves behind. Pure."""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple


class Authenticated(NamedTuple):
    """The user of a login that has succeeded, and what the login rests on.

    ``credential`` names what ends the session when it changes: mechanism and user, or the kind of
    token and its id. ``expires_ms`` is wall time, None for a credential without an end."""

    user: str
    credential: tuple[str, str]
    expires_ms: int | None = None
    is_token: bool = False
