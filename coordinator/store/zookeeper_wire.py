"""Requests and answers in kazoo's terms.

kazoo's own calls are not used: in a group they forget the bookkeeping of created znodes, and drop
results that look false. Its transport, sessions and single messages are.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kazoo import exceptions
from kazoo.protocol import serialization as messages
from kazoo.protocol.states import EventType
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from ottla.coordinator.store.store import (
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    Created,
    Delete,
    EventKind,
    GroupFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    Replace,
    Stat,
    StoreError,
    Znode,
)
from ottla.coordinator.store.zookeeper_requests import (
    Children,
    Exists,
    Get,
    Group,
    Request,
    Sync,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EVENT_KINDS: dict[str, EventKind] = {
    EventType.CREATED: EventKind.CREATED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.CHILD: EventKind.CHILDREN,
}

# An operation of a group that was not at fault: one before it, one behind it.
_ROLLED_BACK = (0, -2)
_ERRORS: dict[int, type[StoreError]] = {
    -101: NoNode,
    -103: BadVersion,
    -108: NoChildrenForEphemerals,
    -110: NodeExists,
    -111: NotEmpty,
}
_CONNECTION_ERRORS = (
    exceptions.ConnectionLoss,
    exceptions.ConnectionClosedError,
    exceptions.SessionExpiredError,
    exceptions.SessionMovedError,
    exceptions.OperationTimeoutError,
    exceptions.AuthFailedError,
)

_EPHEMERAL, _SEQUENTIAL = 1, 2
# Passwords' hashes and tokens are nobody's to read, as in Kafka.
_SECRET_PATHS = ("/config/users", "/delegation_token")

_RESULT_HEADER = struct.Struct("!iBi")
_ERROR_CODE = struct.Struct("!i")


class Transaction:
    """A group of requests; answered by one entry each: an error code, or the operation's answer."""

    type = messages.Transaction.type
    __slots__ = ("_requests",)

    def __init__(self, requests: list[Any]) -> None:
        self._requests = requests

    def serialize(self) -> bytes:
        out = bytearray()
        for request in self._requests:
            out += _RESULT_HEADER.pack(request.type, 0, -1)
            out += request.serialize()
        return bytes(out + _RESULT_HEADER.pack(-1, 1, -1))

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> list[Any]:
        results: list[Any] = []
        while True:
            kind, is_last, _error = _RESULT_HEADER.unpack_from(buffer, offset)
            offset += _RESULT_HEADER.size
            if is_last:
                return results
            result: Any = None
            if kind == messages.Create2.type:
                result = messages.Create2.deserialize(buffer, offset)
                offset += 4 + len(result[0].encode()) + messages.stat_struct.size
            elif kind == messages.SetData.type:
                result = messages.SetData.deserialize(buffer, offset)
                offset += messages.stat_struct.size
            elif kind == -1:
                result = _ERROR_CODE.unpack_from(buffer, offset)[0]
                offset += _ERROR_CODE.size
            results.append(result)


class Wire:
    """Builds requests; knows who may touch what is created."""

    def __init__(self, on_watch: Callable[[Any], None], root: str, has_acl: bool) -> None:
        self._on_watch = on_watch
        self._has_acl = has_acl
        self._secret_paths = tuple(root + path for path in _SECRET_PATHS)

    def request(self, asked: Request) -> Any:
        match asked:
            case Get(path, watched):
                return messages.GetData(path, self._on_watch if watched else None)
            case Exists(path, watched):
                return messages.Exists(path, self._on_watch if watched else None)
            case Children(path, watched):
                return messages.GetChildren(path, self._on_watch if watched else None)
            case Sync(path):
                return messages.Sync(path)
            case Group(operations):
                return Transaction([self._operation(one) for one in operations])
            case _:
                return self._operation(asked)

    def _operation(self, operation: Operation) -> Any:
        match operation:
            case Create(path, data, ephemeral, sequential):
                flags = _EPHEMERAL * ephemeral + _SEQUENTIAL * sequential
                return messages.Create2(path, data, self._acl(path), flags)
            case Replace(path, data, version):
                return messages.SetData(path, data, version)
            case Delete(path, version):
                return messages.Delete(path, version)
            case Check(path, version):
                return messages.CheckVersion(path, version)

    def _acl(self, path: str) -> list[Any]:
        if not self._has_acl:
            return list(OPEN_ACL_UNSAFE)
        if path.startswith(self._secret_paths):
            return list(CREATOR_ALL_ACL)
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def result_of(asked: Request, answer: Any) -> object:
    """The answer in the store's terms. Raises GroupFailed, and StoreError for other refusals."""
    match asked:
        case Get():
            return Znode(answer[0] or b"", stat_of(answer[1]))
        case Exists():
            return None if answer is None else stat_of(answer)
        case Children():
            return answer
        case Group(operations):
            return _results_of(operations, answer)
        case Create() | Replace():
            return _result_of(asked, answer)
        case _:
            return None


def error_of(asked: Request, error: Exception) -> StoreError:
    """``ConnectionLoss`` if the connection, or the session, is what failed."""
    if isinstance(error, _CONNECTION_ERRORS):
        return ConnectionLoss(f"{type(asked).__name__}: {type(error).__name__}")
    code = getattr(error, "code", None)
    if not isinstance(code, int):
        # Not an answer at all: what follows on this connection cannot be trusted.
        return ConnectionLoss(f"{type(asked).__name__}: {error!r}")
    path = "" if isinstance(asked, Group) else asked.path
    return _error(code, path)


def stat_of(stat: Any) -> Stat:
    return Stat(
        stat.czxid,
        stat.mzxid,
        stat.version,
        stat.cversion,
        stat.ephemeralOwner,
        stat.numChildren,
        stat.ctime,
    )


def _results_of(operations: tuple[Operation, ...], answers: list[Any]) -> list[OperationResult]:
    codes = [answer for answer in answers if isinstance(answer, int)]
    if codes:
        places = [place for place, code in enumerate(codes) if code not in _ROLLED_BACK]
        index = places[0] if places else 0
        raise GroupFailed(index, _error(codes[index], operations[index].path), len(operations))
    return [_result_of(*pair) for pair in zip(operations, answers, strict=True)]


def _result_of(operation: Operation, answer: Any) -> OperationResult:
    match operation:
        case Create():
            return Created(answer[0], stat_of(answer[1]))
        case Replace():
            return stat_of(answer)
    return None


def _error(code: int, path: str) -> StoreError:
    known = _ERRORS.get(code)
    if known is not None:
        return known(path)
    found = exceptions.EXCEPTIONS.get(code)
    return StoreError(f"{path}: {found.__name__ if found else f'error {code}'}")
