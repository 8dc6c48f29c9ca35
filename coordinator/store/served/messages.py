"""Pure. Messages between a session and the process that serves the store.

A message is a JSON array prefixed with its length in four bytes. The server answers requests in
their order; between the answers it sends watch events, each before the first answer that can show
its change.
"""

from __future__ import annotations

import json
from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.coordinator.store import store as errors
from ottla.coordinator.store.store import (
    AnswerUnreadable,
    Check,
    Create,
    Created,
    Delete,
    GroupFailed,
    Replace,
    Stat,
    StoreError,
    WatchEvent,
    WatchEventKind,
    Znode,
)
from ottla.coordinator.store.zookeeper_requests import (
    Answered,
    Children,
    Exists,
    Get,
    MultiOperation,
    Sync,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.store.zookeeper_requests import Request

# Both sides must use the same format: after an update they may run different versions.
FORMAT = 1
_LENGTH = Struct(">I")
# A multi request may have a tenth of it; the names of 100,000 topics fit in.
MESSAGE_BYTES_MAX = 64 * 1024 * 1024

_KINDS: dict[str, type[Any]] = {
    "create": Create,
    "set": Replace,
    "delete": Delete,
    "check": Check,
    "get": Get,
    "exists": Exists,
    "children": Children,
    "sync": Sync,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_ERRORS = {
    kind.__name__: kind
    for kind in (
        errors.NoNode,
        errors.NodeExists,
        errors.BadVersion,
        errors.NotEmpty,
        errors.NoChildrenForEphemerals,
        errors.RolledBack,
        errors.ConnectionLoss,
        errors.SessionExpired,
    )
}


class BadMessage(Exception):
    """Bytes that neither side sends: the connection must be closed."""


class Open(NamedTuple):
    """The first message of a connection. ``session_id`` 0 requests a new session, another value
    resumes that session; ``owner`` is the broker."""

    session_id: int
    timeout_ms: int
    owner: int


class CloseRequest(NamedTuple):
    """End the session; the only answer is ``SessionOver``."""


class Opened(NamedTuple):
    """The session of this connection."""

    session_id: int
    timeout_ms: int


class SessionOver(NamedTuple):
    """The session has ended, or no session has that id."""

    reason: str


class Inbox:
    """Cuts the bytes of a connection into messages."""

    def __init__(self) -> None:
        self._received = bytearray()

    def take(self, data: memoryview) -> list[list[Any]]:
        """Return the messages that these bytes complete. Raises BadMessage."""
        self._received += data
        found, at = [], 0
        while len(self._received) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received, at)
            if length > MESSAGE_BYTES_MAX:
                raise BadMessage(f"a message of {length} bytes")
            end = at + _LENGTH.size + length
            if len(self._received) < end:
                break
            found.append(_read(bytes(self._received[at + _LENGTH.size : end])))
            at = end
        del self._received[:at]
        return found


def _read(payload: bytes) -> list[Any]:
    try:
        message = json.loads(payload)
    except ValueError as error:
        raise BadMessage(str(error)) from None
    if not isinstance(message, list) or not message:
        raise BadMessage("a message that is not an array")
    return message


def encode_parts(*parts: object) -> bytes:
    """Encode any message: its name and its fields as JSON."""
    payload = json.dumps(parts, separators=(",", ":")).encode()
    return _LENGTH.pack(len(payload)) + payload


def _text(data: bytes) -> str:
    return data.decode("latin-1")


# ---- from the session ----


def encode_open(open_: Open) -> bytes:
    """The first message."""
    return encode_parts("open", FORMAT, *open_)


def encode_close() -> bytes:
    """The last message."""
    return encode_parts("close")


def encode_request(request: Request) -> bytes:
    """A question or a write."""
    if isinstance(request, MultiOperation):
        return encode_parts("multi", [_request_parts(one) for one in request.operations])
    return encode_parts(*_request_parts(request))


def _request_parts(request: Any) -> list[object]:
    parts = [_text(one) if isinstance(one, bytes) else one for one in request]
    return [_NAMES[type(request)], *parts]


def decode_request(message: list[Any]) -> Request | Open | CloseRequest:
    """What the session wants. Raises BadMessage."""
    name, *parts = message
    try:
        if name == "open":
            if parts[0] != FORMAT:
                raise BadMessage(f"the broker speaks format {parts[0]} of the store, not {FORMAT}")
            return Open(*map(int, parts[1:]))
        if name == "close":
            return CloseRequest()
        if name == "multi":
            return MultiOperation(tuple(_request_of(one) for one in parts[0]))
        found: Request = _request_of(message)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise BadMessage(f"a request that cannot be read: {error!r}") from None
    return found


def _request_of(message: list[Any]) -> Any:
    name, *parts = message
    kind = _KINDS[name]
    if kind in (Create, Replace):
        parts[1] = parts[1].encode("latin-1")
    return kind(*parts)


# ---- to the session ----


def encode_opened(opened: Opened) -> bytes:
    """The answer to ``Open``."""
    return encode_parts("opened", *opened)


def encode_ended(reason: str) -> bytes:
    """The session is over."""
    return encode_parts("ended", reason)


def encode_event(event: WatchEvent) -> bytes:
    """A watch has fired."""
    return encode_parts("event", event.kind.value, event.path)


def encode_result(result: object) -> bytes:
    """What was asked for, or done."""
    if isinstance(result, Znode):
        return encode_parts("answer", [_text(result.data), result.stat])
    return encode_parts("answer", result)


def encode_error(error: StoreError) -> bytes:
    """Why it was not done."""
    if isinstance(error, GroupFailed):
        first, count = error.error, len(error.errors)
        return encode_parts("failed", error.index, count, type(first).__name__, str(first))
    return encode_parts("error", type(error).__name__, str(error))


def decode_told(
    message: list[Any], request: Request | None
) -> Opened | SessionOver | WatchEvent | Answered:
    """Decode a message of the server; ``request`` is the oldest unanswered one. Raises
    BadMessage."""
    name, *parts = message
    try:
        if name == "opened":
            return Opened(*map(int, parts))
        if name == "ended":
            return SessionOver(str(parts[0]))
        if name == "event":
            return WatchEvent(WatchEventKind(parts[0]), str(parts[1]))
        if request is None:
            raise BadMessage("an answer to no request")
        if name == "error":
            return Answered(None, _ERRORS.get(parts[0], StoreError)(parts[1]))
        if name == "failed":
            error = _ERRORS.get(parts[2], StoreError)(parts[3])
            return Answered(None, GroupFailed(parts[0], error, parts[1]))
        if name != "answer":
            raise BadMessage(f"a message {name!r}")
    except (IndexError, TypeError, ValueError) as error:
        raise BadMessage(f"a message that cannot be read: {error!r}") from None
    try:
        return Answered(_result_of(request, parts[0]), None)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        return Answered(None, AnswerUnreadable(f"{type(request).__name__}: {error!r}"))


def _result_of(request: Request, result: Any) -> object:
    match request:
        case Get():
            return Znode(result[0].encode("latin-1"), Stat(*result[1]))
        case Create():
            return Created(str(result[0]), Stat(*result[1]))
        case Exists() | Replace():
            return None if result is None else Stat(*result)
        case MultiOperation():
            return [Stat(*one) if isinstance(one, list) else one for one in result]
        case Children():
            return [str(one) for one in result]
    return None
