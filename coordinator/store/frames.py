"""Bytes of the embedded store's journal: framing, transactions and snapshots. No I/O.

The file is a snapshot (one HEADER frame, NODES frames, one END frame) followed by one frame per
transaction. A frame is: length of the payload, CRC-32 of the payload, payload. A transaction also
contains how many bytes of the file were known to be durable when it was written. This distinguishes
a torn tail, which may be truncated, from damage to confirmed data (hazard S-03).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

from ottla.coordinator.store.store import Check, Create, Delete, Replace
from ottla.coordinator.store.tree import (
    CloseSession,
    OpenSession,
    Step,
    StoreTransaction,
    Tree,
    TreeNode,
)
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT_VERSION = 1
PAYLOAD_BYTES_MAX = 64 * 1024 * 1024
_NODES_FRAME_BYTES = 64 * 1024

_FRAME = Struct(">II")
_HEADER = Struct(">cHqI")
_NODE = Struct(">qqiiqq")
_TRANSACTION = Struct(">cQqqqI")
_SHORT = Struct(">H")
_LONG = Struct(">I")
_VERSION = Struct(">i")
_SESSION = Struct(">q")

_KIND_HEADER, _KIND_NODES, _KIND_END, _KIND_TRANSACTION = b"H", b"N", b"E", b"T"
_CREATE, _SET, _DELETE, _CHECK, _OPEN, _CLOSE = range(1, 7)
_EPHEMERAL, _SEQUENTIAL = 1, 2


class JournalEntry(NamedTuple):
    """A transaction as stored in the file."""

    transaction: StoreTransaction
    synced_bytes: int


def frame(payload: bytes) -> bytes:
    """The payload with its length and checksum in front."""
    assert 0 < len(payload) <= PAYLOAD_BYTES_MAX
    return _FRAME.pack(len(payload), crc32(payload)) + payload


def frame_at(data: bytes, position: int) -> tuple[bytes, int] | None:
    """Return the payload of the complete and undamaged frame there, and the position after it."""
    start = position + _FRAME.size
    if start > len(data):
        return None
    length, checksum = _FRAME.unpack_from(data, position)
    if not 0 < length <= min(PAYLOAD_BYTES_MAX, len(data) - start):
        return None
    payload = data[start : start + length]
    return (payload, start + length) if crc32(payload) == checksum else None


def encode_snapshot(tree: Tree) -> Iterator[bytes]:
    """The tree as frames."""
    yield frame(_HEADER.pack(_KIND_HEADER, FORMAT_VERSION, tree.last_zxid, len(tree.nodes)))
    out = bytearray(_KIND_NODES)
    for path, node in tree.walk():
        _put_text(out, path)
        out += _NODE.pack(
            node.czxid, node.mzxid, node.version, node.creations, node.owner, node.created_ms
        )
        _put_bytes(out, node.data)
        if len(out) >= _NODES_FRAME_BYTES:
            yield frame(bytes(out))
            out = bytearray(_KIND_NODES)
    if len(out) > 1:
        yield frame(bytes(out))
    # The open sessions are listed, too: one without ephemeral znodes must still be closed.
    end = bytearray(_KIND_END)
    for session_id in sorted(tree.sessions):
        end += _SESSION.pack(session_id)
    yield frame(bytes(end))


def decode_snapshot(data: bytes) -> tuple[Tree, int]:
    """The tree at the start of the file, and the position after it.

    The snapshot was durable before the file got its name, so damage in it is never a torn write:
    raises CorruptLogError."""
    tree = Tree()
    payload, position = _snapshot_frame(data, 0)
    if payload[:1] != _KIND_HEADER or len(payload) != _HEADER.size:
        raise CorruptLogError("the store's journal does not start with a snapshot")
    _kind, version, tree.last_zxid, node_count = _HEADER.unpack(payload)
    if version != FORMAT_VERSION:
        raise CorruptLogError(f"the store's journal has format {version}, not {FORMAT_VERSION}")
    while True:
        payload, position = _snapshot_frame(data, position)
        if payload[:1] != _KIND_NODES:
            break
        at = 1
        while at < len(payload):
            at = _restore_node(tree, payload, at)
    if payload[:1] != _KIND_END or len(tree.nodes) != node_count:
        raise CorruptLogError("the store's snapshot is incomplete")
    for (session_id,) in _SESSION.iter_unpack(payload[1:]):
        tree.sessions.setdefault(session_id, set())
    return tree, position


def _snapshot_frame(data: bytes, position: int) -> tuple[bytes, int]:
    found = frame_at(data, position)
    if found is None:
        raise CorruptLogError(f"the store's snapshot is damaged at byte {position}")
    return found


def _restore_node(tree: Tree, payload: bytes, at: int) -> int:
    path, at = _take_text(payload, at)
    czxid, mzxid, version, creations, owner, created_ms = _NODE.unpack_from(payload, at)
    node_data, at = _take_bytes(payload, at + _NODE.size)
    tree.restore(path, TreeNode(node_data, czxid, mzxid, owner, created_ms, version, creations))
    return at


def encode_transaction(transaction: StoreTransaction, synced_bytes: int) -> bytes:
    """One frame."""
    out = bytearray(
        _TRANSACTION.pack(
            _KIND_TRANSACTION,
            synced_bytes,
            transaction.zxid,
            transaction.wall_ms,
            transaction.session_id,
            len(transaction.steps),
        )
    )
    for step in transaction.steps:
        _put_step(out, step)
    return frame(bytes(out))


def decode_transaction(payload: bytes) -> JournalEntry | None:
    """Decode the entry; None if the payload is not a transaction."""
    if payload[:1] != _KIND_TRANSACTION or len(payload) < _TRANSACTION.size:
        return None
    _kind, synced, zxid, wall_ms, session_id, count = _TRANSACTION.unpack_from(payload, 0)
    at = _TRANSACTION.size
    steps = []
    for _ in range(count):
        step, at = _take_step(payload, at)
        steps.append(step)
    return JournalEntry(StoreTransaction(zxid, wall_ms, session_id, tuple(steps)), synced)


def _put_step(out: bytearray, step: Step) -> None:
    match step:
        case Create(path, data, ephemeral, sequential):
            flags = (_EPHEMERAL if ephemeral else 0) | (_SEQUENTIAL if sequential else 0)
            out += bytes((_CREATE, flags))
            _put_text(out, path)
            _put_bytes(out, data)
        case Replace(path, data, version):
            out.append(_SET)
            _put_text(out, path)
            out += _VERSION.pack(version)
            _put_bytes(out, data)
        case Delete(path, version) | Check(path, version):
            out.append(_DELETE if isinstance(step, Delete) else _CHECK)
            _put_text(out, path)
            out += _VERSION.pack(version)
        case OpenSession(timeout_ms):
            out.append(_OPEN)
            out += _VERSION.pack(timeout_ms)
        case CloseSession(session_id):
            out.append(_CLOSE)
            out += _SESSION.pack(session_id)


def _take_step(payload: bytes, at: int) -> tuple[Step, int]:
    kind, at = payload[at], at + 1
    if kind == _OPEN:
        return OpenSession(_VERSION.unpack_from(payload, at)[0]), at + _VERSION.size
    if kind == _CLOSE:
        return CloseSession(_SESSION.unpack_from(payload, at)[0]), at + _SESSION.size
    if kind == _CREATE:
        flags = payload[at]
        path, at = _take_text(payload, at + 1)
        data, at = _take_bytes(payload, at)
        return Create(path, data, bool(flags & _EPHEMERAL), bool(flags & _SEQUENTIAL)), at
    path, at = _take_text(payload, at)
    version: int = _VERSION.unpack_from(payload, at)[0]
    at += _VERSION.size
    if kind == _SET:
        data, at = _take_bytes(payload, at)
        return Replace(path, data, version), at
    if kind not in (_DELETE, _CHECK):
        raise CorruptLogError(f"the store's journal holds an operation of kind {kind}")
    return (Delete(path, version) if kind == _DELETE else Check(path, version)), at


def _put_text(out: bytearray, text: str) -> None:
    encoded = text.encode()
    out += _SHORT.pack(len(encoded))
    out += encoded


def _take_text(payload: bytes, at: int) -> tuple[str, int]:
    end = at + _SHORT.size + _SHORT.unpack_from(payload, at)[0]
    return payload[at + _SHORT.size : end].decode(), end


def _put_bytes(out: bytearray, data: bytes) -> None:
    out += _LONG.pack(len(data))
    out += data


def _take_bytes(payload: bytes, at: int) -> tuple[bytes, int]:
    end = at + _LONG.size + _LONG.unpack_from(payload, at)[0]
    return payload[at + _LONG.size : end], end
