"""Reads a member's partitions from their committed offsets, and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.simulation.clients.batches import read_batches
from tests.simulation.clients.client import EARLIEST, RETRIABLE
from tests.simulation.groups.coordination import COORDINATION, fetch_offsets
from tests.simulation.groups.evidence import Commit, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.groups.identity import Identity
    from tests.simulation.history import Partition

FETCH_BYTES_MAX = 6_000


class Reader:
    """The reader of one life of a member. ``owned``: the partitions it believes to own."""

    def __init__(self, identity: Identity) -> None:
        self.owned: set[Partition] = set()
        self._member = identity
        self._client = identity.client
        self._evidence = identity.evidence
        # The next offset of each partition whose committed one is known, and what was committed.
        self._positions: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}

    # -- owning ------------------------------------------------------------------------------

    def take(self, partitions: Iterable[Partition], asked: int, lease_s: float) -> None:
        """These are the member's; ``asked`` and ``lease_s`` as of a claim."""
        added = set(partitions) - self.owned
        self.owned |= added
        self._evidence.claims.take(self._member.owner, added, asked, lease_s)

    def drop(self, partitions: Iterable[Partition] | None = None) -> None:
        """Give up these partitions, or all."""
        gone = set(self.owned if partitions is None else partitions)
        self.owned -= gone
        for partition in gone:
            self._positions.pop(partition, None)
        self._evidence.claims.drop(self._client.name, gone)

    async def place(self) -> bool:
        """Find the start positions of new partitions. Raises Gone."""
        wanted = sorted(self.owned - set(self._positions))
        if not wanted:
            return True
        member = self._member
        offsets = await fetch_offsets(
            self._client,
            self._evidence,
            member.versions.fetch,
            member.terms.group,
            wanted,
            (member.member_id, member.generation) if member.speaks_consumer else None,
        )
        if offsets is None:
            return False
        for partition in wanted:
            start = max(0, offsets[partition])
            self._positions[partition] = self._committed[partition] = start
        return True

    # -- reading -----------------------------------------------------------------------------

    async def poll(self) -> None:
        """Send one Fetch of all partitions. Raises Gone."""
        if not self._positions:
            await self._client.pause()
            return
        wire = await self._client.wire()
        request = self._request(self._client.random.below(100))
        response = await wire.call(request, ApiKey.FETCH, self._client.versions.fetch)
        calm = True
        for topic in response.responses:
            for found in topic.partitions:
                calm &= await self._take((topic.topic, found.partition_index), found)
        if not calm:
            await self._client.pause()

    async def _take(self, partition: Partition, found: Any) -> bool:
        code = ErrorCode(found.error_code)
        history = self._evidence.history
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if not history.losses:
                history.surprises.append(
                    f"{self._client.name}: {self._positions[partition]} of {partition} is out of "
                    f"range though nothing was lost"
                )
            self._positions[partition] = await self._client.list_offset(partition, EARLIEST)
            return False
        if code is not ErrorCode.NONE:
            if code not in RETRIABLE:
                history.surprises.append(f"{self._client.name}: {code.name} from {partition}")
            return False
        for batch in read_batches(memoryview(found.records or b"")):
            for offset, value in batch.values:
                if offset >= self._positions[partition]:
                    self._evidence.show(self._member.terms.group, partition, offset, value)
            self._positions[partition] = max(self._positions[partition], batch.last_offset + 1)
        return True

    async def commit(self) -> ErrorCode:
        """Store how far all has been read. Raises Gone; the outcome is then unknown.

        Now and then also what is stored already: a power cut may have taken it."""
        is_thorough = self._client.random.chance(0.1)
        moved = {p: o for p, o in self._positions.items() if is_thorough or o != self._committed[p]}
        if not moved:
            return ErrorCode.NONE
        member, history = self._member, self._evidence.history
        asked = history.tick()
        commits = {
            partition: Commit(
                asked,
                member.terms.group,
                member.generation,
                partition,
                offset,
                member_id=member.member_id,
                membership=member.membership,
                held_since=self._evidence.claims.since(self._client.name, partition),
            )
            for partition, offset in moved.items()
        }
        self._evidence.commits += commits.values()
        wire = await self._client.wire()
        version = member.versions.commit
        response = await wire.call(self._commit_request(moved), ApiKey.OFFSET_COMMIT, version)
        order = history.tick()
        worst = ErrorCode.NONE
        for topic in response.topics:
            for one in topic.partitions:
                partition = (topic.name, one.partition_index)
                code = ErrorCode(one.error_code)
                if code is ErrorCode.NONE:
                    commits[partition].settle(Outcome.ACKNOWLEDGED, order)
                    self._committed[partition] = moved[partition]
                else:
                    worst = code
                    if code not in COORDINATION:
                        commits[partition].settle(Outcome.REFUSED, order)
        return ErrorCode.NONE if worst in RETRIABLE else worst

    def _commit_request(self, offsets: dict[Partition, int]) -> OffsetCommitRequest:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, number), offset in offsets.items():
            entry = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic, partitions=[]))
            entry.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=offset, committed_metadata=""
                )
            )
        member = self._member
        return OffsetCommitRequest(
            group_id=member.terms.group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=list(topics.values()),
        )

    def _request(self, wait_ms: int) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (topic, number), position in self._positions.items():
            entry = topics.setdefault(topic, FetchTopic(topic=topic, partitions=[]))
            entry.partitions.append(
                FetchPartition(partition=number, fetch_offset=position, partition_max_bytes=20_000)
            )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            # Heartbeats wait behind the answer on the one connection there is.
            max_bytes=FETCH_BYTES_MAX,
            topics=list(topics.values()),
        )
