"""The error that ends a mirror."""

from __future__ import annotations

from ottla.wire.errors import ClientError


class MirrorError(ClientError):
    """A condition that the operator has to change; the text says what."""
