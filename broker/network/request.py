"""One request on its way: a place in the ordered answers of its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.engine.context import ClientPeer
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.engine.context import ReplyPart

# What stands in ``Request.parts`` when there is nothing to send.
NO_ANSWER: tuple[ReplyPart, ...] = ()
END_CONNECTION: tuple[ReplyPart, ...] = (b"",)


class RequestOwner(ClientPeer, Protocol):
    """The connection of a request, as the request and the request channel know it."""

    unsent_bytes: int
    # Noted by the processor as having answers that it has not looked at yet.
    is_dirty: bool
    respond: Callable[[Any], None]

    def flush_answers(self) -> None:
        """Send the answers whose turn has come. Raises OSError."""

    def close(self, reason: str) -> None:
        """Drop the connection now."""

    def mute(self, mute_ms: float) -> None:
        """Read nothing more for that long."""

    def end(self, reason: str) -> None:
        """Start no more requests; close once those before are answered."""

    def stop_serving(self, reason: str) -> None:
        """Start no more requests: one of them has asked for the end."""

    def open_lane(self) -> None:
        """The ordered part of the request started last has ended."""

    def on_channel_room(self) -> None:
        """The request channel takes requests again."""


class Request:
    """Made for each frame, handed to the API layer as its ``Reply``, dropped once it has left.

    ``parts`` is None until the request is answered, in whatever way."""

    __slots__ = ("owner", "parts", "size_bytes")

    def __init__(self, owner: RequestOwner) -> None:
        self.owner = owner
        self.parts: Sequence[ReplyPart] | None = None
        self.size_bytes = 0

    def send(self, parts: Sequence[ReplyPart], mute_ms: float = 0) -> None:
        assert self.parts is None, "a request is answered once"
        size_bytes = 0
        for part in parts:
            size_bytes += part.size_bytes if part.__class__ is FileRegion else len(part)
        # Only a SASL token without a header may be empty.
        assert parts, "an answer has at least one part"
        self.size_bytes = size_bytes
        self.parts = parts
        owner = self.owner
        owner.unsent_bytes += size_bytes
        if mute_ms > 0:
            owner.mute(mute_ms)
        if not owner.is_dirty:
            owner.respond(owner)

    def skip(self) -> None:
        assert self.parts is None, "a request is answered once"
        self.parts = NO_ANSWER
        if not self.owner.is_dirty:
            self.owner.respond(self.owner)

    def close(self, reason: str) -> None:
        assert self.parts is None, "a request is answered once"
        self.parts = END_CONNECTION
        self.owner.stop_serving(reason)
        if not self.owner.is_dirty:
            self.owner.respond(self.owner)
