"""Simulated producers: idempotent with five requests in flight, plain, resending, fire-and-forget.

None ever sends a value under a second identity, except one that does as librdkafka when a batch is
out of order: it renumbers the unfinished batches before it. A value whose fate cannot be learned is
given up as unknown, so that every duplicate in the log is the broker's. Without sequence numbers a
value is sent again after a code that means "not stored" and after no other.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from tests.simulation.clients.client import RETRIABLE, Client
from tests.simulation.clients.wire import Gone, Wire
from tests.simulation.history import Fate, Write

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.history import Partition

IN_FLIGHT_MAX = 5
PATIENCE_MS = 20_000.0

FENCED = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


# What leaves open whether a batch was stored; all other codes say that it was not.
IN_DOUBT = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class Kind(Enum):
    """How a producer is configured."""

    IDEMPOTENT = "acks=all with retries and sequence numbers"
    RENUMBERING = "idempotent, with librdkafka's answer to skipped sequences"
    RESENDING = "acks=all without sequence numbers, sent again when it was refused"
    PLAIN = "acks=1, every value tried once"
    FIRE = "acks=0"


class Outgoing(NamedTuple):
    """A batch and what it carries; sent again byte for byte."""

    writes: list[Write]
    records: bytes


class Producer:
    """Writes to one partition until stopped, then until its last batch is settled.

    One batch is in flight until the first of an epoch is acknowledged: a broker does not know a new
    producer and accepts any first sequence, so that a refusal of the first batch alone would leave
    a gap; Kafka has this hole too.
    """

    def __init__(
        self,
        client: Client,
        partition: Partition,
        kind: Kind,
        *,
        pace_ms: float = 100.0,
        durable: bool = False,
    ) -> None:
        self.kind = kind
        self.settled = False
        self._client = client
        self._history = client.history
        self._random = client.random
        self._partition = partition
        self._name = "{}/{}-{}".format(client.name, *partition)
        self._pace_ms = pace_ms
        self._durable = durable
        self._in_flight_max = 1
        self._written = 0
        self._producer_id, self._epoch, self._sequence = -1, -1, 0
        self._window: list[Outgoing] = []
        self._patient_until_ms: float | None = None

    @property
    def is_idempotent(self) -> bool:
        """Whether its batches have sequence numbers."""
        return self.kind in (Kind.IDEMPOTENT, Kind.RENUMBERING)

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Bursts with pauses between them."""
        if self.is_idempotent:
            self._producer_id, self._epoch = await self._client.new_producer_id()
        while go_on() or self._window:
            if go_on():
                for _ in range(1 + self._random.below(IN_FLIGHT_MAX)):
                    if len(self._window) < self._in_flight_max:
                        self._window.append(self._new_batch())
            await self._burst()
            if self._window and not go_on() and self._is_out_of_patience():
                break
            if self._window:
                await self._client.pause()
            else:
                await self._client.ports.clock.sleep(self._random.exponential(self._pace_ms))
        for outgoing in self._window:
            self._give_up(outgoing, Fate.UNKNOWN)
        self.settled = True

    def _is_out_of_patience(self) -> bool:
        """Only towards a partition that may stay offline for good."""
        now_ms = self._client.ports.clock.now_ms()
        if self._patient_until_ms is None:
            self._patient_until_ms = now_ms + PATIENCE_MS
        return self._partition in self._history.damaged and now_ms > self._patient_until_ms

    async def _burst(self) -> None:
        """Send the whole window down one connection and settle what the answers allow."""
        window, self._window = self._window, []
        answers = await self._send(window)
        fenced = skipped = False
        for outgoing, (code, offset) in zip(window, answers, strict=True):
            if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._acknowledge(outgoing, offset if code is ErrorCode.NONE else None)
            elif code in FENCED and not self._window:
                fenced = True
                self._give_up(outgoing, Fate.UNKNOWN)
                self._note_fencing(code)
            elif self._may_send_again(code):
                skipped = skipped or code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                self._window.append(outgoing)
            else:
                self._give_up(outgoing, Fate.UNKNOWN)
                if code is not None and code not in RETRIABLE:
                    self._history.surprises.append(f"{self._client.name} was told {code.name}")
        if fenced:
            self._start_epoch()
        elif skipped and self.kind is Kind.RENUMBERING:
            self._number_anew()

    def _may_send_again(self, code: ErrorCode | None) -> bool:
        """Whether a batch that got this answer, or none, cannot be stored twice by that."""
        if self.is_idempotent:
            return code is None or code in RETRIABLE or code in FENCED
        return self.kind is Kind.RESENDING and code in RETRIABLE - IN_DOUBT

    async def _send(self, window: list[Outgoing]) -> list[tuple[ErrorCode | None, int]]:
        """Code and base offset for each batch; None when nothing was learned."""
        try:
            wire = await self._client.wire()
        except Gone:
            return [(None, -1)] * len(window)
        version = self._client.versions.produce
        order = self._history.tick()
        for outgoing in window:
            for write in outgoing.writes:
                write.attempted = order
        if self.kind is Kind.FIRE:
            for outgoing in window:
                wire.send_unanswered(self._request(outgoing, 0), ApiKey.PRODUCE, version)
            return [(None, -1)] * len(window)
        acks = 1 if self.kind is Kind.PLAIN else -1
        futures = []
        for outgoing in window:
            futures.append(wire.send(self._request(outgoing, acks), ApiKey.PRODUCE, version))
            if self.kind is Kind.RENUMBERING:
                # One by one, so that what happens at the leader happens between two of them.
                await self._client.ports.clock.sleep(self._random.below(8))
        return [await self._answer(wire, future) for future in futures]

    async def _answer(self, wire: Wire, future: object) -> tuple[ErrorCode | None, int]:
        try:
            response = await wire.wait(future)  # type: ignore[arg-type]
        except Gone:
            return None, -1
        found = response.responses[0].partition_responses[0]
        return ErrorCode(found.error_code), found.base_offset

    def _request(self, outgoing: Outgoing, acks: int) -> ProduceRequest:
        topic, number = self._partition
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(number, outgoing.records)]
        )
        return ProduceRequest(acks=acks, timeout_ms=1_500, topic_data=[data])

    def _new_batch(self) -> Outgoing:
        writes = []
        for _ in range(1 + self._random.below(4)):
            self._written += 1
            value = f"{self._name}/{self._written}".encode()
            value = value.ljust(len(value) + self._random.below(300), b".")
            order = self._history.tick()
            write = Write(
                self._name,
                self._written,
                self._partition,
                value,
                order,
                idempotent=self.is_idempotent,
                durable=self._durable,
            )
            self._history.writes.append(write)
            writes.append(write)
        return self._outgoing(writes)

    def _outgoing(self, writes: list[Write]) -> Outgoing:
        """A batch with the next sequence numbers."""
        now_ms = self._client.ports.clock.wall_ms()
        options = BatchOptions(
            codec=Codec.GZIP if self._random.chance(0.1) else Codec.NONE,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence if self.is_idempotent else -1,
        )
        self._sequence += len(writes)
        entries = [(now_ms, None, write.value, ()) for write in writes]
        return Outgoing(writes, encode_batch(entries, options))

    def _acknowledge(self, outgoing: Outgoing, base_offset: int | None) -> None:
        if self.kind is not Kind.RESENDING:
            # What is sent again would come behind what was in flight behind it.
            self._in_flight_max = IN_FLIGHT_MAX
        order = self._history.tick()
        for number, write in enumerate(outgoing.writes):
            known = base_offset is not None and base_offset >= 0
            offset = base_offset + number if known and base_offset is not None else None
            write.settle(Fate.ACKNOWLEDGED, order, offset)

    def _give_up(self, outgoing: Outgoing, fate: Fate) -> None:
        order = self._history.tick()
        for write in outgoing.writes:
            write.settle(fate, order)

    def _note_fencing(self, code: ErrorCode) -> None:
        """The broker forgot sequences it had acknowledged: only a loss of power may do that."""
        if not self._history.losses:
            self._history.surprises.append(
                f"{self._client.name} was told {code.name} though nothing was ever lost"
            )

    def _number_anew(self) -> None:
        """All that is unfinished gets new numbers in the next epoch, stored or not."""
        self._history.renumbered += 1
        self._epoch += 1
        self._sequence = 0
        self._window = [self._outgoing(outgoing.writes) for outgoing in self._window]

    def _start_epoch(self) -> None:
        """Continue with the next epoch (KIP-360), which fences what the old one has in flight."""
        for outgoing in self._window:
            self._give_up(outgoing, Fate.UNKNOWN)
        self._window = []
        self._epoch += 1
        self._in_flight_max = 1
        self._sequence = 0
