"""Questions to coordinators: put together, answered once each, and not for longer than allowed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.internal_topics import TRANSACTIONS_TOPIC
from ottla.broker.coordinating.txn_verification import ASK_TIMEOUT_MS, Errors, Verification
from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.engine.tasks import Tasks
from ottla.broker.metadata.metadata import MetadataCache
from ottla.coordinator.hashing import partition_for
from ottla.coordinator.metadata.changes import TopicChanged
from ottla.coordinator.metadata.image import PartitionState, TopicImage
from ottla.coordinator.transaction.requests import Added, AddToTransaction
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.ports import Address
from ottla.wire.errors import BrokerUnreachable
from tests.broker.support.node import HandClock, quiet

if TYPE_CHECKING:
    from collections.abc import Callable

HERE, THERE = 1, 2
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Wire:
    """A connection whose answers the test gives."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.closed = False
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.futures: list[asyncio.Future[AddPartitionsToTxnResponse]] = []

    def send(self, _api: object, request: Any, *, timeout_ms: float) -> asyncio.Future[Any]:
        assert timeout_ms == ASK_TIMEOUT_MS
        self.requests.append(request)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        return future

    def close(self, _reason: str) -> None:
        self.closed = True

    def answer(self, error: ErrorCode = ErrorCode.NONE, index: int = -1) -> None:
        """The same verdict on all that the request asks."""
        results = [
            AddPartitionsToTxnResult(
                one.transactional_id,
                [
                    AddPartitionsToTxnTopicResult(
                        topic.name,
                        [
                            AddPartitionsToTxnPartitionResult(number, error)
                            for number in topic.partitions
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in self.requests[index].transactions
        ]
        self.futures[index].set_result(AddPartitionsToTxnResponse(results_by_transaction=results))


class Roads:
    """The way to the other broker."""

    def __init__(self) -> None:
        self.node_id = HERE
        self.port = 9092
        self.wires: list[Wire] = []
        self.is_cut = False

    def address_of(self, node_id: int) -> Address:
        assert node_id == THERE
        return Address("there", self.port)

    async def connect(self, node_id: int, *, purpose: str, request_timeout_ms: float) -> Wire:
        assert purpose
        address = self.address_of(node_id)
        if self.is_cut:
            raise BrokerUnreachable(address, "refused")
        self.wires.append(Wire(address))
        return self.wires[-1]

    @property
    def wire(self) -> Wire:
        return self.wires[-1]


class Bench:
    """Two partitions of transactional ids: the first is coordinated here, the second there."""

    def __init__(
        self, ask_here: Callable[[AddToTransaction], DeferredAnswer[Added]] | None = None
    ) -> None:
        self.clock = HandClock()
        self.tasks = Tasks()
        self.roads = Roads()
        self.metadata = MetadataCache(self.clock)
        self.metadata.begin("cluster", 0)
        roads: Any = self.roads
        self.verification = Verification(
            roads, self.metadata, ask_here or _unasked, self.clock, self.tasks
        )
        self.ids = {
            node: next(one for one in map(str, range(99)) if partition_for(one, 2) == node - 1)
            for node in (HERE, THERE)
        }

    def know_leaders(self, *leaders: int) -> None:
        states = {
            index: PartitionState((leader,), leader, 0, (leader,))
            for index, leader in enumerate(leaders or (HERE, THERE))
        }
        self.metadata.take([TopicChanged(TopicImage(TRANSACTIONS_TOPIC, b"i" * 16, states))])

    async def ask(
        self, *places: TopicPartition, of: int = THERE, name: str = "", adds: bool = False
    ) -> asyncio.Task[Errors]:
        """Ask about a transactional id that is coordinated by that broker."""
        task = asyncio.create_task(
            self.verification.ask(name or self.ids[of], 7, 0, places or (T0,), adds=adds)
        )
        await quiet()
        return task

    async def stop(self) -> None:
        await self.tasks.stop()
        assert self.tasks.crash_count == 0


def _unasked(asked: AddToTransaction) -> DeferredAnswer[Added]:
    raise AssertionError(f"no coordinator was to be asked here: {asked}")


async def test_the_coordinator_here_is_called() -> None:
    """No connection, and no request, for what is in the same process."""
    asked: list[AddToTransaction] = []
    answers: list[DeferredAnswer[Added]] = []

    def ask_here(question: AddToTransaction) -> DeferredAnswer[Added]:
        asked.append(question)
        answers.append(DeferredAnswer())
        return answers[-1]

    bench = Bench(ask_here)
    bench.know_leaders()
    task = await bench.ask(T0, T1, of=HERE)
    answers[0].complete(Added({T0: ErrorCode.NONE, T1: ErrorCode.INVALID_TXN_STATE}))

    assert await task == {T0: ErrorCode.NONE, T1: ErrorCode.INVALID_TXN_STATE}
    expected = AddToTransaction(bench.ids[HERE], 7, 0, (T0, T1), is_verification=True)
    assert asked == [expected]
    assert bench.roads.wires == []
    assert bench.verification.failure_count == 1
    await bench.stop()


async def test_what_comes_while_a_request_is_on_its_way_goes_together_with_the_next() -> None:
    """A thousand producers cost a coordinator a few requests."""
    bench = Bench()
    bench.know_leaders()
    names = [one for one in map(str, range(99)) if partition_for(one, 2) == THERE - 1][:4]
    tasks = [await bench.ask(name=names[0], adds=True)]
    tasks += [await bench.ask(T0, T1, name=name, adds=True) for name in names[1:]]
    await quiet()
    first_alone = len(bench.roads.wire.requests)
    bench.roads.wire.answer()
    await quiet()
    bench.roads.wire.answer()
    await asyncio.gather(*tasks)

    assert first_alone == 1
    assert len(bench.roads.wires) == 1
    sizes = [len(request.transactions) for request in bench.roads.wire.requests]
    assert sizes == [1, 3]
    flags = [one.verify_only for one in bench.roads.wire.requests[1].transactions]
    assert flags == [False] * 3
    assert bench.roads.wire.requests[1].transactions[0].topics[0].partitions == [0, 1]
    await bench.stop()


async def test_two_questions_of_one_transactional_id_go_in_two_requests() -> None:
    """The answer names transactional ids, and could not tell them apart."""
    bench = Bench()
    bench.know_leaders()
    tasks = [await bench.ask(T0), await bench.ask(T1)]
    await quiet()
    bench.roads.wire.answer()
    await quiet()
    bench.roads.wire.answer(ErrorCode.INVALID_TXN_STATE)

    assert await tasks[0] == {T0: ErrorCode.NONE}
    assert await tasks[1] == {T1: ErrorCode.INVALID_TXN_STATE}
    await bench.stop()


async def test_what_only_asks_does_not_wait_for_what_has_to_be_written() -> None:
    """A log of transactions that lacks a replica must not stop those that only look."""
    bench = Bench()
    bench.know_leaders()
    adding = await bench.ask(adds=True)
    asking = await bench.ask(T1)
    bench.roads.wires[1].answer()

    assert await asking == {T1: ErrorCode.NONE}
    assert not adding.done()
    bench.roads.wires[0].answer()
    assert await adding == {T0: ErrorCode.NONE}
    await bench.stop()


async def test_a_coordinator_that_was_replaced_is_not_asked() -> None:
    """It may be cut off, and believe in a transaction whose end is in the partition (T-15)."""
    bench = Bench()
    bench.know_leaders()
    name = bench.ids[THERE]
    ask = bench.verification.ask
    stale = await ask(name, 7, 0, (T0,), adds=False, known_epoch=1)
    current = asyncio.create_task(ask(name, 7, 0, (T0,), adds=False, known_epoch=0))
    await quiet()
    bench.roads.wire.answer()

    assert stale == {T0: ErrorCode.NOT_COORDINATOR}
    assert await current == {T0: ErrorCode.NONE}
    assert len(bench.roads.wires) == 1
    await bench.stop()


async def test_without_a_coordinator_the_answer_is_there_at_once() -> None:
    """The topic does not exist yet, or its partition has lost its leader: clients retry."""
    bench = Bench()
    no_topic = await (await bench.ask())
    bench.know_leaders(HERE, -1)
    no_leader = await (await bench.ask())

    assert no_topic == no_leader == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    await bench.stop()


async def test_a_broker_that_is_not_reached_is_asked_again_by_the_next_question() -> None:
    """What cannot be asked is refused in a way that producers repeat."""
    bench = Bench()
    bench.know_leaders()
    bench.roads.is_cut = True
    failed = await (await bench.ask())
    bench.roads.is_cut = False
    task = await bench.ask()
    bench.roads.wire.answer()

    assert failed == {T0: ErrorCode.NETWORK_EXCEPTION}
    assert await task == {T0: ErrorCode.NONE}
    await bench.stop()


async def test_a_silent_coordinator_holds_no_producer_for_longer_than_the_limit() -> None:
    """A produce request holds up its own connection during verification, so it must not wait longer
    than its own limit."""
    bench = Bench()
    bench.know_leaders()
    first = await bench.ask()
    await bench.clock.advance(ASK_TIMEOUT_MS / 2)
    second = await bench.ask(T1)
    await bench.clock.advance(ASK_TIMEOUT_MS / 2 + 1)
    early = (first.done(), second.done())
    await bench.clock.advance(ASK_TIMEOUT_MS / 2)

    assert early == (True, False)
    assert await first == {T0: ErrorCode.NETWORK_EXCEPTION}
    assert await second == {T1: ErrorCode.NETWORK_EXCEPTION}
    bench.roads.wire.futures[0].set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"))
    await quiet()
    await bench.stop()


async def test_a_late_answer_is_nobodys_answer() -> None:
    """Nor that of the question that is asked by then."""
    bench = Bench()
    bench.know_leaders()
    given_up = await bench.ask()
    await bench.clock.advance(ASK_TIMEOUT_MS + 1)
    fresh = await bench.ask(T1)
    bench.roads.wire.answer()
    await quiet()
    bench.roads.wire.answer(ErrorCode.INVALID_TXN_STATE)

    assert await given_up == {T0: ErrorCode.NETWORK_EXCEPTION}
    assert await fresh == {T1: ErrorCode.INVALID_TXN_STATE}
    await bench.stop()


async def test_what_an_answer_leaves_out_was_not_answered() -> None:
    """A partition that is not named was not verified."""
    bench = Bench()
    bench.know_leaders()
    task = await bench.ask(T0, T1)
    del bench.roads.wire.requests[0].transactions[0].topics[0].partitions[1]
    bench.roads.wire.answer()

    assert await task == {T0: ErrorCode.NONE, T1: ErrorCode.NETWORK_EXCEPTION}
    await bench.stop()


async def test_a_request_that_is_refused_as_a_whole_verifies_nothing() -> None:
    """An error beside the results is easily overlooked."""
    bench = Bench()
    bench.know_leaders()
    task = await bench.ask()
    refusal = AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    bench.roads.wire.futures[0].set_result(refusal)

    assert await task == {T0: ErrorCode.NETWORK_EXCEPTION}
    await bench.stop()


async def test_a_broker_that_has_moved_is_asked_where_it_is() -> None:
    """It was started again on another port; the old connection may hang for long."""
    bench = Bench()
    bench.know_leaders()
    task = await bench.ask()
    bench.roads.wire.answer()
    await task
    bench.roads.port = 9093
    again = await bench.ask()
    bench.roads.wire.answer()
    await again

    assert [wire.address.port for wire in bench.roads.wires] == [9092, 9093]
    assert [wire.closed for wire in bench.roads.wires] == [True, False]
    await bench.stop()


async def test_who_begins_early_is_asked_for_again_until_a_tenth_of_a_second_is_over() -> None:
    """Only what adds: in version 1 the end of the last transaction comes before the next one."""
    bench = Bench()
    bench.know_leaders()
    for adds, count in ((True, 6), (False, 1)):
        task = await bench.ask(adds=adds)
        asked = 0
        while not task.done():
            await quiet()
            futures = bench.roads.wire.futures if bench.roads.wires else []
            if futures and not futures[-1].done():
                asked += 1
                bench.roads.wire.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
                await quiet()
            await bench.clock.advance(20)

        assert await task == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
        assert asked == count
    await bench.stop()
