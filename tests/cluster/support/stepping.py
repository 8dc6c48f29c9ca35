"""Ottla's own producer goes through a transaction of version 2 (KIP-890) step by step, and its
coordinator dies at one point of it.

The producer's requests are watched on its sockets. A kill within a step comes that long after the
step's request has left, and before the producer can see an answer: each point is always reached.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.process.environment import Environment
from ottla.client.process.errors import AbortRequired
from ottla.coordinator.hashing import partition_for
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decode
from ottla.protocol.headers import decode_request_header
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.sync import Admin, Producer
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom
from tests.cluster.support.pipeline import OFFSETS_TOPIC, STATE_TOPIC, TARGETS, read
from tests.cluster.transactions.test_transaction_kills import (
    AFTER,
    BEFORE,
    GROUP,
    SOURCE,
    TARGET,
    TRANSACTIONAL_ID,
    Point,
    committed_offsets,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.client.administration.transaction_requests import TransactionView
    from ottla.protocol.ports import Address, Buffer, Listener, Socket, SocketOptions
    from tests.cluster.support.real import RealCluster

# What a producer of version 2 sends at each step; brokers announce partitions and groups.
MESSAGES = {
    "init": ApiKey.INIT_PRODUCER_ID,
    "send": ApiKey.PRODUCE,
    "offsets": ApiKey.TXN_OFFSET_COMMIT,
    "commit": ApiKey.END_TXN,
    "abort": ApiKey.END_TXN,
}
# The first versions that mean version 2 of transactions.
VERSIONS_MIN = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}
ANNOUNCING = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN)
LEVEL = 2
SIZE_BYTES = 4
# Of the source: positions of the transactions that are struck, and of those that follow them.
STRUCK, FOLLOWING = 0, 1
NO_OFFSET = -1001
WAIT_MS = 180_000.0


class End(NamedTuple):
    """An EndTxn as it was sent."""

    producer_id: int
    epoch: int
    is_commit: bool


class Wire:
    """All that a producer sends, and what is to happen once a message has left."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []
        self.ends: list[End] = []
        self._armed: tuple[ApiKey, float, Callable[[], None]] | None = None

    def arm(self, message: ApiKey, delay_s: float, strike: Callable[[], None]) -> None:
        """Once, that long after the next one of these, and before anything is received."""
        self._armed = (message, delay_s, strike)

    def disarm(self) -> None:
        """Cancel the strike, since its point has passed."""
        self._armed = None

    def on_sent(self, data: bytes, count: int) -> None:
        """A whole frame with its size before it, of which so many bytes have left."""
        assert count == len(data) == SIZE_BYTES + int.from_bytes(data[:SIZE_BYTES], "big")
        frame = data[SIZE_BYTES:]
        header, position = decode_request_header(frame)
        self.sent.append((header.api_key, header.api_version))
        if header.api_key == ApiKey.END_TXN:
            request = decode(EndTxnRequest, header.api_version, memoryview(frame)[position:])
            self.ends.append(End(request.producer_id, request.producer_epoch, request.committed))
        if self._armed is not None and header.api_key == self._armed[0]:
            _, delay_s, strike = self._armed
            self._armed = None
            # On the producer's loop, so that the producer makes no progress.
            time.sleep(delay_s)
            strike()

    def check_version(self) -> None:
        """Check that no request of version 1 was sent."""
        assert not [one for one in self.sent if one[0] in ANNOUNCING], self.sent
        for message, least in VERSIONS_MIN.items():
            versions = {version for key, version in self.sent if key == message}
            assert versions, f"no {message.name} was sent"
            assert min(versions) >= least, (message.name, versions)


class WatchedSocket:
    """One socket of the producer."""

    def __init__(self, inner: Socket, wire: Wire) -> None:
        self._inner, self._wire = inner, wire
        self.recv_into, self.has_hung_up = inner.recv_into, inner.has_hung_up
        self.on_readable, self.on_writable = inner.on_readable, inner.on_writable
        self.sendfile, self.close = inner.sendfile, inner.close

    @property
    def local(self) -> Address:
        return self._inner.local

    @property
    def peer(self) -> Address:
        return self._inner.peer

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        count = self._inner.sendmsg(buffers, more=more)
        self._wire.on_sent(b"".join(map(bytes, buffers)), count)
        return count


class WatchedNet:
    """The real network, seen by a wire."""

    def __init__(self, wire: Wire) -> None:
        self._inner, self._wire = RealNet(), wire

    def listen(self, address: Address, options: SocketOptions) -> Listener:
        return self._inner.listen(address, options)

    async def connect(self, address: Address, options: SocketOptions) -> Socket:
        return WatchedSocket(await self._inner.connect(address, options), self._wire)


class SecondSteps:
    """One transaction after the other of one transactional id: one that is struck, and one by the
    same producer that is not; what was committed so far."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._wire = Wire()
        self._victims: list[int] = []
        self._last_epoch = -1
        self.number = 0
        self.struck: list[int] = []
        self.values: list[bytes] = []
        self.outcomes: list[str] = []

    def run(self, point: Point) -> None:
        """Run two transactions with one kill; afterwards all brokers are up again."""
        self.number += 1
        self._wire = Wire()
        environment = Environment(WatchedNet(self._wire), RealClock(), RealRandom())
        with Producer(
            self._cluster.bootstrap,
            environment=environment,
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=120_000,
            call_timeout_ms=WAIT_MS,
            delivery_timeout_ms=WAIT_MS,
            linger_ms=0,
        ) as producer:
            outcome = self._transact(producer, point)
            assert self._victims, f"nobody died {point}"
            self._cluster.tell(f"{point}: {outcome}")
            self._note(outcome)
            self._follow(producer)
            self._cluster.tell("the next one is committed")
        self._wire.check_version()
        for victim in self._victims:
            self._cluster.brokers[victim].start()
        self._victims.clear()
        for topic in (TARGET, STATE_TOPIC, OFFSETS_TOPIC):
            self._cluster.wait_until_whole(topic)
        self._cluster.tell("everybody is back")
        self._judge(point)

    def _transact(self, producer: Producer, point: Point) -> str:
        self._step(point, "init", producer.init_transactions)
        producer.begin_transaction()
        try:
            self._step(point, "send", lambda: send(producer, b"%d" % self.number))
            positions = {TopicPartition(SOURCE, STRUCK): self.number}
            self._step(
                point, "offsets", lambda: producer.send_offsets_to_transaction(positions, GROUP)
            )
            if point.commits:
                self._step(point, "commit", producer.commit_transaction)
                return "committed"
        except AbortRequired as error:
            self._cluster.tell(f"{point}: to be aborted, {error}")
        self._step(point, "abort", producer.abort_transaction)
        return "aborted"

    def _step(self, point: Point, step: str, do: Callable[[], object]) -> None:
        if point.step != step or self._victims:
            do()
            return
        victim = self._coordinator()
        if point.moment == BEFORE:
            self._kill(victim)
            do()
        elif point.moment == AFTER:
            do()
            self._kill(victim)
        else:
            self._wire.arm(MESSAGES[step], float(point.moment), lambda: self._kill(victim))
            try:
                do()
            finally:
                self._wire.disarm()

    def _coordinator(self) -> int:
        parts = self._cluster.newest(STATE_TOPIC)
        return parts[partition_for(TRANSACTIONAL_ID, len(parts))].leader

    def _kill(self, victim: int) -> None:
        self._victims.append(victim)
        self._cluster.brokers[victim].kill()

    def _note(self, outcome: str) -> None:
        self.outcomes.append(outcome)
        if outcome == "committed":
            self.struck.append(self.number)
            self.values.append(b"%d" % self.number)

    def _follow(self, producer: Producer) -> None:
        """Run the producer's next transaction while the killed broker is still down."""
        value = b"%d, and on" % self.number
        producer.begin_transaction()
        send(producer, value)
        positions = {TopicPartition(SOURCE, FOLLOWING): self.number}
        producer.send_offsets_to_transaction(positions, GROUP)
        producer.commit_transaction()
        self.values.append(value)

    def _judge(self, point: Point) -> None:
        """The committed offset is the transaction's, and so is its outcome; the epochs are in
        order."""
        offsets = {STRUCK: self.struck[-1] if self.struck else NO_OFFSET, FOLLOWING: self.number}
        found = committed_offsets(self._cluster.bootstrap, len(offsets))
        assert found == [offsets[number] for number in sorted(offsets)], point
        self._judge_epochs(point)

    def judge_records(self) -> None:
        """Offsets and records have one fate."""
        found = read(self._cluster.bootstrap, TARGET, "read_committed")
        assert found == [self.values] * TARGETS, self.outcomes

    def _judge_epochs(self, point: Point) -> None:
        """Each transaction had a new epoch, however often its end was requested."""
        ends = self._wire.ends
        ids = {one.producer_id for one in ends}
        assert len(ids) == 1, (point, ends)
        asked = sorted({(one.epoch, one.is_commit) for one in ends})
        assert len(asked) == 2, (point, ends)
        (first, verdict), (second, is_commit) = asked
        assert verdict == (self.outcomes[-1] == "committed"), (point, ends)
        assert is_commit, (point, ends)
        renewals = self._renewals()
        assert first > self._last_epoch, (point, ends, self._last_epoch)
        assert first < second <= first + 1 + renewals, (point, ends, renewals)
        view = describe(self._cluster.bootstrap)
        assert (view.producer_id, view.producer_epoch) == (ids.pop(), second + 1), (point, view)
        assert view.state == "CompleteCommit", (point, view)
        assert view.partitions == (), (point, view)
        self._last_epoch = view.producer_epoch

    def _renewals(self) -> int:
        """How often another epoch was asked for after the first message of the transactions."""
        keys = [key for key, _ in self._wire.sent]
        return keys[keys.index(ApiKey.PRODUCE) :].count(ApiKey.INIT_PRODUCER_ID)


def send(producer: Producer, value: bytes) -> None:
    """One record to each partition, acknowledged."""
    deliveries = [producer.send(TARGET, value, partition=number) for number in range(TARGETS)]
    for delivery in deliveries:
        delivery.result()


def describe(address: str) -> TransactionView:
    """The transactional id as its coordinator sees it."""
    with Admin(address, call_timeout_ms=WAIT_MS) as admin:
        view = admin.transactions.describe_transactions([TRANSACTIONAL_ID])[TRANSACTIONAL_ID]
        assert not isinstance(view, Exception), view
        return view


def tells_of_version_two(address: str) -> bool:
    """Whether clients of this broker use it."""
    with Admin(address, call_timeout_ms=WAIT_MS) as admin:
        views = admin.features.describe_features()
        return ("transaction.version", LEVEL) in {(one.name, one.level) for one in views}
