"""One life of a transactional producer: transactions over a few partitions, one after the other.

It repeats requests until their outcome is known, sends no value twice, and believes of a
transaction only what the coordinator has said of its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from tests.checker.history import Call, Kind, Sent
from tests.simulation.clients.wire import Gone
from tests.simulation.transactions.books import encode_value, key_of
from tests.simulation.transactions.coordination import (
    COME_AGAIN,
    DOOMED,
    FENCED,
    CoordinatorKind,
    Coordinators,
    TransactionVersions,
)
from tests.simulation.transactions.stragglers import Late, Stragglers
from tests.simulation.transactions.terms import Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.checker.history import Read
    from tests.simulation.cluster.client import ClusterClient
    from tests.simulation.history import Partition
    from tests.simulation.transactions.books import Books
    from tests.simulation.transactions.terms import Terms

_TXN = CoordinatorKind.TRANSACTION


class Fenced(Exception):
    """Another one has taken the transactional id over, or the coordinator has given it up."""


class Doomed(Exception):
    """The transaction can only be aborted."""


class Teller:
    """Owned by its process; recreated with each life."""

    def __init__(self, client: ClusterClient, books: Books, terms: Terms) -> None:
        self.client = client
        self.books = books
        self.terms = terms
        self.versions = TransactionVersions.draw(client.random, second=terms.second)
        self.coordinators = Coordinators(
            client, self.versions.find_coordinator, terms.habits.forgets
        )
        self.producer_id, self.epoch = -1, -1
        self._random = client.random
        self._sequences: dict[Partition, int] = {}
        # Whether a request to commit may be on its way.
        self._commit_tried = False
        # Whether this epoch is unusable, as old clients have no other way to get a new one.
        self._is_spoiled = False
        self._stragglers = Stragglers(client, terms.habits.late_ms)

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Until told to stop."""
        while go_on():
            await self._init()
            try:
                while go_on():
                    await self.transact()
                    await self._sleep(self.terms.pace_ms)
            except Fenced:
                await self._sleep(1_000.0)

    async def transact(self) -> None:
        """One transaction of some records. Raises Fenced."""
        count = 1 + self._random.below(min(3, len(self.terms.partitions)))
        records = [
            Wanted(partition, self.books.new_value())
            for partition in self._random.sample(self.terms.partitions, count)
            for _ in range(1 + self._random.below(3))
        ]
        await self.carry_out(records, [])

    async def carry_out(self, records: list[Wanted], read: list[Read]) -> bool:
        """Write the records in one transaction and note what came of it; whether they are
        committed. Raises Fenced."""
        books, client = self.books, self.client
        planned = [Sent(key_of(one.partition), one.value) for one in records]
        books.note(client, Kind.INVOKE, Call.TXN, sent=planned)
        self._commit_tried = False
        offsets: dict[int, int] = {}
        try:
            is_committed = await self._attempt(records, offsets)
        except Fenced:
            kind = Kind.INFO if self._commit_tried else Kind.FAIL
            books.note(client, kind, Call.TXN, sent=planned, read=read)
            raise
        sent = [one._replace(offset=offsets.get(one.value)) for one in planned]
        kind = Kind.OK if is_committed else Kind.FAIL
        books.note(client, kind, Call.TXN, sent=sent, read=read)
        if self._is_spoiled and not self.versions.is_second:
            raise Fenced
        return is_committed

    async def before_end(self) -> None:
        """Hook for the other parts of the transaction. Raises Fenced, Doomed."""

    async def _attempt(self, records: list[Wanted], offsets: dict[int, int]) -> bool:
        habits = self.terms.habits
        wants_commit = not self._random.chance(habits.aborts)
        try:
            if records and not self.versions.is_second:
                await self._add({one.partition for one in records})
            for partition in dict.fromkeys(one.partition for one in records):
                values = [one for one in records if one.partition == partition]
                if habits.dwell_ms:
                    await self._sleep(habits.dwell_ms)
                if self._random.chance(habits.late_produces):
                    await self._produce_late(partition, values)
                await self._produce(partition, values, offsets)
            await self.before_end()
        except Doomed:
            wants_commit = False
        return await self._end(wants_commit)

    # ---- the coordinator ----

    async def _init(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.terms.transactional_id,
            transaction_timeout_ms=self.terms.timeout_ms,
        )
        while True:
            response = await self._coordinator(request, ApiKey.INIT_PRODUCER_ID, self.versions.init)
            if response is None:
                continue
            code = ErrorCode(response.error_code)
            if code is ErrorCode.NONE:
                self.producer_id, self.epoch = response.producer_id, response.producer_epoch
                self._sequences = {}
                self._is_spoiled = False
                return
            self._judge(code, "InitProducerId", fenced=False)
            await self._rest(code)

    async def _add(self, partitions: set[Partition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(partitions):
            topics.setdefault(topic, []).append(number)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.terms.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(*entry) for entry in topics.items()],
        )
        while True:
            response = await self._coordinator(
                request, ApiKey.ADD_PARTITIONS_TO_TXN, self.versions.add_partitions
            )
            if response is None:
                continue
            codes = {
                ErrorCode(one.partition_error_code)
                for topic in response.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            }
            if codes == {ErrorCode.NONE}:
                return
            for code in sorted(codes - {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}):
                self._judge(code, "AddPartitionsToTxn")
                await self._rest(code)

    async def _end(self, wants_commit: bool) -> bool:
        request = EndTxnRequest(
            transactional_id=self.terms.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=wants_commit,
        )
        if self._random.chance(self.terms.habits.late_ends):
            self._commit_tried = self._commit_tried or wants_commit
            await self._end_late(request)
        while True:
            self._commit_tried = self._commit_tried or wants_commit
            response = await self._coordinator(request, ApiKey.END_TXN, self.versions.end)
            if response is None:
                continue
            code = ErrorCode(response.error_code)
            if code is ErrorCode.NONE:
                if self.versions.is_second:
                    self.producer_id, self.epoch = response.producer_id, response.producer_epoch
                    self._sequences = {}
                return wants_commit
            if code is ErrorCode.INVALID_TXN_STATE:
                # No part of it ever reached the coordinator, or the coordinator has aborted it.
                raise Fenced
            self._judge(code, "EndTxn")
            await self._rest(code)

    async def _end_late(self, request: EndTxnRequest) -> None:
        try:
            node_id = await self.coordinators.find(_TXN, self.terms.transactional_id)
        except Gone:
            node_id = None
        if node_id is not None:
            late = Late(request, ApiKey.END_TXN, self.versions.end)
            await self._stragglers.send(node_id, late)

    async def _coordinator(self, request: object, api_key: ApiKey, version: int) -> Any | None:
        response = await self.coordinators.ask(
            _TXN, self.terms.transactional_id, request, api_key, version
        )
        if response is None:
            await self.client.pause()
        return response

    def _judge(self, code: ErrorCode, what: str, *, fenced: bool = True) -> None:
        """Decide whether to continue. Raises Fenced, Doomed."""
        if fenced and code in FENCED:
            raise Fenced
        if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING and self.terms.may_expire:
            raise Fenced
        if code in DOOMED:
            self._is_spoiled = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            raise Doomed
        if code not in COME_AGAIN:
            self.books.surprises.append(f"{self.client.name} was told {code.name} for {what}")
            raise Fenced

    async def _rest(self, code: ErrorCode) -> None:
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            self.coordinators.forget(_TXN, self.terms.transactional_id)
        await self.client.pause()

    # ---- the partitions ----

    async def _produce(
        self, partition: Partition, records: list[Wanted], offsets: dict[int, int]
    ) -> None:
        """Until it is acknowledged. Raises Fenced, Doomed."""
        first = self._sequences.get(partition, 0)
        request = self._produce_request(partition, records, first)
        view = self.client.view(partition)
        while True:
            try:
                wire = await view.wire()
                response = await wire.call(request, ApiKey.PRODUCE, self.versions.produce)
            except Gone:
                await view.pause()
                continue
            found = response.responses[0].partition_responses[0]
            code = ErrorCode(found.error_code)
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                if self._random.chance(self.terms.habits.deaf):
                    raise Doomed
                self._sequences[partition] = first + len(records)
                if code is ErrorCode.NONE and found.base_offset >= 0:
                    for place, one in enumerate(records):
                        offsets[one.value] = found.base_offset + place
                return
            self._judge(code, f"Produce to {key_of(partition)}")
            await view.pause()

    async def _produce_late(self, partition: Partition, records: list[Wanted]) -> None:
        """Sent, and given up before it arrives. Raises Doomed."""
        request = self._produce_request(partition, records, self._sequences.get(partition, 0))
        node_id = await self.client.leader_of(partition)
        late = Late(request, ApiKey.PRODUCE, self.versions.produce)
        if node_id is not None and await self._stragglers.send(node_id, late):
            # In the same epoch a broker could not tell it from what comes next (KIP-890).
            self._is_spoiled = True
            raise Doomed

    def _produce_request(
        self, partition: Partition, records: list[Wanted], first: int
    ) -> ProduceRequest:
        now_ms = self.client.ports.clock.wall_ms()
        data = encode_batch(
            [(now_ms, None, encode_value(one.value, one.source), ()) for one in records],
            BatchOptions(
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=first,
                is_transactional=True,
            ),
        )
        topic, number = partition
        part = PartitionProduceData(number, data)
        return ProduceRequest(
            transactional_id=self.terms.transactional_id,
            acks=-1,
            timeout_ms=1_500,
            topic_data=[TopicProduceData(topic, partition_data=[part])],
        )

    async def _sleep(self, mean_ms: float) -> None:
        await self.client.ports.clock.sleep(self._random.exponential(mean_ms))
