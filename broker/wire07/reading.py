"""Answers FETCH, MULTIFETCH and OFFSETS of 0.7.

A record is served as a message of magic 1, uncompressed, without its key: a form whose size never
changes, and the one that producers of 0.7 wrote, so that some clients read no other. What a
compacted topic holds changes, so its positions cannot stay, and the answer is an error.
A topic that does not exist is answered as by brokers of 0.7: as one without messages.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.wire07.ledger import Ledgers
from ottla.broker.wire07.walk import Goal, Walk
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.wire07.answers import Error07, Fetched07, encode_offsets, error_of

if TYPE_CHECKING:
    from ottla.broker.engine.context import ClientPeer
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.wire07.asking import Asking
    from ottla.broker.wire07.partitions import Places07
    from ottla.broker.wire07.positions import Anchor
    from ottla.protocol.wire07.requests import Fetch07, Offsets07

logger = logging.getLogger("ottla.wire07")

# The last versions with topics by name and without sessions, and with lists of offsets.
_FETCH = ApiKey.FETCH, 4
_LIST_OFFSETS = ApiKey.LIST_OFFSETS, 0
_REGION_BYTES = 1024 * 1024
# Of one answer. A consumer may ask for everything in one request.
ANSWER_BYTES_MAX = 16 * 1024 * 1024
# Answers that are made at the same time.
_AT_ONCE_MAX = 4


class Reading07:
    """Reads for the clients of one listener."""

    def __init__(self, services: Services, asking: Asking, places: Places07) -> None:
        self._services = services
        self._asking = asking
        self._places = places
        self._turns = asyncio.Semaphore(_AT_ONCE_MAX)
        self._ledgers = Ledgers(services.session, services.ports.offload)

    async def fetch_all(self, peer: ClientPeer, parts: list[Fetch07]) -> list[Fetched07]:
        """An answer for each part, in order; together they have a bounded size."""
        answers = []
        left_bytes = ANSWER_BYTES_MAX
        for wanted in parts:
            answers.append(await self._fetch(peer, wanted, left_bytes))
            left_bytes = max(0, left_bytes - len(answers[-1].messages))
        return answers

    async def _fetch(self, peer: ClientPeer, wanted: Fetch07, left_bytes: int) -> Fetched07:
        try:
            if wanted.max_bytes <= 0:
                raise KafkaError(ErrorCode.INVALID_FETCH_SIZE, "no bytes are wanted")
            self._check(peer, Operation.READ, wanted.topic)
            if not self._places.exists(wanted.topic):
                return Fetched07(Error07.NONE)
            partition = self._served(wanted.topic, wanted.partition)
            if partition.replica.check_offsets_known() is not ErrorCode.NONE:
                # A new leader's watermark lags behind what consumers have read: there is no more to
                # read yet, and their positions are not out of range.
                return Fetched07(Error07.NONE)
            ledger = self._ledgers.of(partition)
            at = await ledger.at_position(wanted.offset)
            room_bytes = min(wanted.max_bytes, left_bytes)
            data = b""
            async with self._turns:
                while not data and room_bytes:
                    walk = await self._read(peer, partition, at, room_bytes)
                    if walk is None:
                        break
                    data, at = bytes(walk.data), walk.at
            await ledger.tell(at)
        except KafkaError as error:
            return Fetched07(_told(error, wanted.topic))
        return Fetched07(Error07.NONE, data)

    async def _read(
        self, peer: ClientPeer, partition: PartitionRuntime, at: Anchor, room_bytes: int
    ) -> Walk | None:
        """What is there from an offset on; None at the end. Raises KafkaError."""
        place = partition.log.partition
        wanted = FetchPartition(
            partition=place.partition,
            fetch_offset=at.offset,
            partition_max_bytes=min(room_bytes, _REGION_BYTES),
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_REGION_BYTES,
            topics=[FetchTopic(topic=place.topic, partitions=[wanted])],
        )
        response = await self._asking.ask(peer, _FETCH, request, FetchResponse)
        part = response.responses[0].partitions[0]
        if part.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(part.error_code))
        records = part.records
        if not records:
            return None
        assert isinstance(records, memoryview | bytes | bytearray), "regions have been read"
        walk = Walk(
            lambda position, count: bytes(records[position : position + count]),
            len(records),
            at,
            Goal(data_bytes=room_bytes),
        )
        while await self._services.ports.offload.run(walk.step):
            pass
        return walk

    async def offsets(self, peer: ClientPeer, wanted: Offsets07) -> bytes:
        """The whole answer to OFFSETS: positions, the largest first."""
        try:
            self._check(peer, Operation.DESCRIBE, wanted.topic)
            if not self._places.exists(wanted.topic):
                return encode_offsets(Error07.NONE, [0] if wanted.time < 0 else [])
            number = self._places.number(wanted.topic, wanted.partition)
            asked = ListOffsetsPartition(
                partition_index=number, timestamp=wanted.time, max_num_offsets=wanted.count_max
            )
            topic = ListOffsetsTopic(name=wanted.topic, partitions=[asked])
            request = ListOffsetsRequest(replica_id=-1, topics=[topic])
            response = await self._asking.ask(peer, _LIST_OFFSETS, request, ListOffsetsResponse)
            part = response.topics[0].partitions[0]
            if part.error_code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(part.error_code))
            ledger = self._ledgers.of(self._served(wanted.topic, wanted.partition))
            # In ascending order each record is read once.
            offsets = part.old_style_offsets[::-1]
            positions = [await ledger.position_of(one) for one in offsets]
        except KafkaError as error:
            return encode_offsets(_told(error, wanted.topic))
        return encode_offsets(Error07.NONE, positions[::-1])

    def _check(self, peer: ClientPeer, operation: Operation, topic: str) -> None:
        """Asked before the log is searched; the request that follows is authorized as any other.

        Raises KafkaError."""
        authorizer = self._services.authorizer
        if not authorizer.is_allowed(peer, operation, AclResourceType.TOPIC, topic):
            name = operation.name.lower()
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"it may not {name} {topic!r}")

    def _served(self, topic: str, index: int) -> PartitionRuntime:
        partition = self._places.led(topic, index)
        if partition.settings.compaction is not None:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"the topic {topic!r} is compacted, and 0.7 has no offsets that stay then",
            )
        return partition


def _told(error: KafkaError, topic: str) -> Error07:
    told = error_of(error.code)
    if told is Error07.UNKNOWN:
        logger.info("a client of 0.7 is refused %r: %s", topic, error)
    return told
