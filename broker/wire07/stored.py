"""Keeps the anchors of partitions in the metadata store, so that every leader knows the same ones.

A partition has one persistent znode from its first use by a client of 0.7 on. It says which topic
it is about by the topic's id: of an earlier topic of that name nothing is taken.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ottla.broker.wire07.positions import Anchor
from ottla.coordinator.store import paths, znode
from ottla.coordinator.store.store import BadVersion, NodeExists, NoNode, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import Uuid, uuid_to_text
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.coordinator.store.store import MetadataSession

PATH = "/ottla/positions_07"
_NO_ZNODE = -1


class StoredAnchors(NamedTuple):
    """The anchors of a partition, and the version of their znode; -1 where there is none."""

    anchors: list[Anchor]
    version: int


class AnchorNode:
    """The znode of one partition. ``session`` raises KafkaError while there is none."""

    def __init__(
        self, session: Callable[[], MetadataSession], name: str, topic_id: Uuid | None
    ) -> None:
        self._session = session
        self._path = f"{PATH}/{name}"
        self._topic_id = "" if topic_id is None else uuid_to_text(topic_id)

    async def load(self) -> StoredAnchors:
        """What is there. Raises KafkaError."""
        try:
            found = await self._session().get(self._path)
        except NoNode:
            return StoredAnchors([], _NO_ZNODE)
        except StoreError as error:
            raise _unavailable(error) from error
        return StoredAnchors(parse_anchors(found.data, self._topic_id), found.stat.version)

    async def save(self, anchors: Iterable[Anchor], version: int) -> int:
        """Replace that version, and return the new one. Raises KafkaError, NOT_LEADER_OR_FOLLOWER
        if another broker has written meanwhile."""
        session, data = self._session(), build_anchors(anchors, self._topic_id)
        try:
            if version != _NO_ZNODE:
                return (await session.set(self._path, data, version)).version
            with contextlib.suppress(NodeExists):
                await session.create(PATH)
            return (await session.create(self._path, data)).stat.version
        except (BadVersion, NodeExists, NoNode) as error:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker has written the positions of 0.7"
            ) from error
        except StoreError as error:
            raise _unavailable(error) from error


async def forget_deleted(session: MetadataSession) -> int:
    """Delete the znodes of deleted and recreated topics; return how many.

    The store decides which those are: another broker may know of a topic that this one has not
    heard of. Raises StoreError."""
    count = 0
    try:
        names = await session.children(PATH)
    except NoNode:
        return 0
    for name in names:
        path = f"{PATH}/{name}"
        try:
            found = await session.get(path)
        except NoNode:
            continue
        if await _is_deleted(session, name.rpartition("-")[0], found.data):
            with contextlib.suppress(NoNode, BadVersion):
                await session.delete(path, found.stat.version)
                count += 1
    return count


async def _is_deleted(session: MetadataSession, topic: str, data: bytes) -> bool:
    try:
        payload = paths.parse_topic((await session.get(paths.topic(topic))).data)
    except NoNode:
        return True
    text = znode.parse(data).get("topic_id")
    if payload is None or payload.topic_id is None or not text:
        return False
    return bool(uuid_to_text(payload.topic_id) != text)


def build_anchors(anchors: Iterable[Anchor], topic_id: str) -> bytes:
    """Pairs of offset and position, and whose they are."""
    pairs = [list(anchor) for anchor in anchors]
    return znode.build({"version": 1, "topic_id": topic_id, "anchors": pairs})


def parse_anchors(data: bytes, topic_id: str) -> list[Anchor]:
    """The reverse; none if they are of another topic or cannot be read."""
    value = znode.parse(data)
    if value.get("topic_id") != topic_id:
        return []
    try:
        return [Anchor(int(offset), int(position)) for offset, position in value["anchors"]]
    except (KeyError, ValueError, TypeError):
        return []


def _unavailable(error: StoreError) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"the positions of 0.7 cannot be stored: {error}"
    )
