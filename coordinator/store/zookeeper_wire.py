"""Converts requests and answers to and from kazoo's messages.

kazoo provides transport and sessions; its messages are those of ``zookeeper_messages.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kazoo import exceptions
from kazoo.protocol.states import EventType
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id

from ottla.coordinator.store import zookeeper_messages as messages
from ottla.coordinator.store.store import (
    ANY_VERSION,
    AnswerUnreadable,
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    Created,
    Delete,
    GroupFailed,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    Replace,
    Stat,
    StoreError,
    WatchEventKind,
    Znode,
)
from ottla.coordinator.store.zookeeper_requests import (
    Children,
    Exists,
    Get,
    GetRights,
    MultiOperation,
    Request,
    SetRights,
    Sync,
    ZnodeRight,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EVENT_KINDS: dict[str, WatchEventKind] = {
    EventType.CREATED: WatchEventKind.CREATED,
    EventType.DELETED: WatchEventKind.DELETED,
    EventType.CHANGED: WatchEventKind.CHANGED,
    EventType.CHILD: WatchEventKind.CHILDREN,
}

# Errors of a group's other operations: before the failed one, and after it.
_ROLLED_BACK = (0, -2)
_ERRORS: dict[int, type[StoreError]] = {
    -101: NoNode,
    -102: NoAuth,
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
# Only the brokers may read password hashes, their settings and tokens, as in Kafka.
SECRET_PATHS = ("/config/users", "/config/brokers", "/delegation_token")


class ZooKeeperRequests:
    """Builds requests, with the ACL of created znodes."""

    def __init__(
        self,
        on_watch: Callable[[Any], None],
        root: str,
        has_acl: bool,
        *,
        others_read: bool = False,
    ) -> None:
        self._on_watch = on_watch
        self._has_acl = has_acl
        self._others_read = others_read
        self._secret_paths = tuple(root + path for path in SECRET_PATHS)

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
            case GetRights(path):
                return messages.GetAcl(path)
            case SetRights(path, rights):
                entries = [ACL(one.rights, Id(one.scheme, one.user)) for one in sorted(rights)]
                return messages.SetAcl(path, entries, ANY_VERSION)
            case MultiOperation(operations):
                return messages.MultiRequest([self._in_group(one) for one in operations])
            case _:
                return self._operation(asked)

    def _in_group(self, operation: Operation) -> Any:
        request = self._operation(operation)
        # The same request, with another answer.
        return messages.Create(*request) if isinstance(operation, Create) else request

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
        if not self._others_read or path.startswith(self._secret_paths):
            return list(CREATOR_ALL_ACL)
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def result_of(asked: Request, answer: Any) -> object:
    """Return the answer in the store's form. Raises GroupFailed, AnswerUnreadable."""
    try:
        return _result_of(asked, answer)
    except StoreError:
        raise
    except Exception as error:
        # Whatever the reply contains: the event loop must treat it as a lost answer.
        raise _unreadable(asked, f"{type(error).__name__}: {error}") from error


def _result_of(asked: Request, answer: Any) -> object:
    if isinstance(answer, messages.Unreadable):
        raise _unreadable(asked, answer.reason)
    match asked:
        case Get():
            return Znode(answer[0] or b"", stat_of(answer[1]))
        case Exists():
            return None if answer is None else stat_of(answer)
        case Children():
            if not isinstance(answer, list):
                raise TypeError(f"{answer!r} is no list")
            return answer
        case GetRights():
            return frozenset(ZnodeRight(one.id.scheme, one.id.id, one.perms) for one in answer[0])
        case MultiOperation():
            return _results_of(asked, answer)
        case Create():
            return Created(answer[0], stat_of(answer[1]))
        case Replace():
            return stat_of(answer)
        case _:
            return None


def _unreadable(asked: Request, reason: str) -> AnswerUnreadable:
    return AnswerUnreadable(
        f"what ZooKeeper answers to {type(asked).__name__} cannot be read ({reason}); its versions "
        "3.5 to 3.9 are known to work"
    )


def error_of(asked: Request, error: Exception) -> StoreError:
    """Return the store's error; ``ConnectionLoss`` if the connection or the session failed."""
    if isinstance(error, _CONNECTION_ERRORS):
        return ConnectionLoss(f"{type(asked).__name__}: {type(error).__name__}")
    code = getattr(error, "code", None)
    if not isinstance(code, int):
        # This is not an answer at all: the rest of this connection cannot be trusted.
        return _unreadable(asked, f"{type(error).__name__}: {error}")
    path = "" if isinstance(asked, MultiOperation) else asked.path
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


def _results_of(group: MultiOperation, answers: list[Any]) -> list[OperationResult]:
    if answers and isinstance(answers[0], messages.Unreadable):
        raise _unreadable(group, answers[0].reason)
    operations = group.operations
    codes = [answer for answer in answers if isinstance(answer, int)]
    if codes:
        if len(codes) != len(operations):
            raise ValueError("some operations were done, and others refused")
        places = [place for place, code in enumerate(codes) if code not in _ROLLED_BACK]
        index = places[0] if places else 0
        raise GroupFailed(index, _error(codes[index], operations[index].path), len(operations))
    pairs = zip(operations, answers, strict=True)
    return [stat_of(one) if isinstance(asked, Replace) else one for asked, one in pairs]


def _error(code: int, path: str) -> StoreError:
    known = _ERRORS.get(code)
    if known is not None:
        return known(path)
    found = exceptions.EXCEPTIONS.get(code)
    return StoreError(f"{path}: {found.__name__ if found else f'error {code}'}")
