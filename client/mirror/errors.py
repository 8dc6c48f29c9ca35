"""Why a mirror has ended by itself."""

from __future__ import annotations

from ottla.wire.errors import ClientError


class MirrorError(ClientError):
    """Something that a person has to change; the text is a sentence that says what."""
