"""kazoo's messages with safe parsing: unreadable bytes are reported without ending the thread.

kazoo's own multi request is not used: it drops the stat of changed znodes, and results that are
false. Groups use ``create``, as Java's clients do, not ``create2``: ZooKeeper before 3.7.2, and
3.8.0 and 3.8.1, answer ``create2`` like ``create``, with a path without a stat.
"""

from __future__ import annotations

import struct
from typing import Any

from kazoo.protocol import serialization as messages

from ottla.protocol.named_tuples import NamedTuple

# In place of an operation's type: the end of the header, or a refusal.
_NO_TYPE = -1
_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")


class Unreadable(NamedTuple):
    """Replaces an answer that could not be read; contains the reason."""

    reason: str


def _careful(message: Any) -> Any:
    """Return the message with a ``deserialize`` that does not raise: kazoo would log a
    traceback."""

    class Careful(message):  # type: ignore[misc]
        __slots__ = ()

        def deserialize(self, buffer: bytes, offset: int) -> Any:
            try:
                return message.deserialize(buffer, offset)
            except Exception as error:
                return Unreadable(f"{type(error).__name__}: {error}")

    Careful.__name__ = message.__name__
    return Careful


GetData = _careful(messages.GetData)
Exists = _careful(messages.Exists)
GetChildren = _careful(messages.GetChildren)
Sync = _careful(messages.Sync)
Create2 = _careful(messages.Create2)
SetData = _careful(messages.SetData)
Delete = _careful(messages.Delete)
GetAcl = _careful(messages.GetACL)
SetAcl = _careful(messages.SetACL)
# Only in groups.
Create, CheckVersion = messages.Create, messages.CheckVersion


class MultiRequest:
    """A group of requests. Its answer has one entry per operation, an error code or a result, or a
    single ``Unreadable``."""

    type = messages.Transaction.type
    __slots__ = ("_requests",)

    def __init__(self, requests: list[Any]) -> None:
        self._requests = requests

    def serialize(self) -> bytes:
        out = bytearray()
        for request in self._requests:
            out += _HEADER.pack(request.type, 0, -1)
            out += request.serialize()
        return bytes(out + _HEADER.pack(_NO_TYPE, 1, -1))

    def deserialize(self, buffer: bytes, offset: int) -> list[Any]:
        # Always a list: kazoo iterates over it.
        try:
            return self._read(buffer, offset)
        except Exception as error:
            return [Unreadable(f"{type(error).__name__}: {error}")]

    def _read(self, buffer: bytes, offset: int) -> list[Any]:
        results: list[Any] = []
        count = len(self._requests)
        while True:
            kind, is_last, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if is_last:
                break
            if len(results) == count:
                raise ValueError(f"more than {count} results")
            result, offset = _result(kind, self._requests[len(results)].type, buffer, offset)
            results.append(result)
        if len(results) != count:
            raise ValueError(f"{len(results)} results of {count} operations")
        return results


def _result(kind: int, asked: int, buffer: bytes, offset: int) -> tuple[Any, int]:
    """Return one operation's result, and where the next one begins."""
    if kind == _NO_TYPE:
        return _INT.unpack_from(buffer, offset)[0], offset + _INT.size
    if kind != asked:
        raise ValueError(f"an operation of type {asked} is answered as one of type {kind}")
    if kind == Create.type:
        path, offset = messages.read_string(buffer, offset)
        if path is None:
            raise ValueError("a znode without a path was made")
        return path, offset
    if kind == SetData.type:
        return messages.SetData.deserialize(buffer, offset), offset + messages.stat_struct.size
    return None, offset
