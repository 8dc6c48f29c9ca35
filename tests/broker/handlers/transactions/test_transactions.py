"""A broker as coordinator of transactions: what it answers, what is in its log when it answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.hashing import partition_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.support.groups import GROUP, coordinated
from tests.broker.support.requests import batch, create, fetched, produce, produced
from tests.broker.support.transactional import (
    ID,
    Producer,
    committed_values,
    coordinator_of,
    state_labels,
    state_log,
    written_states,
)
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

STATE_LOG = "__transaction_state"
NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
INVALID_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
INVALID_STATE = ErrorCode.INVALID_TXN_STATE


@pytest.fixture
async def running() -> AsyncIterator[RunningBroker]:
    async with running_broker({"transaction.state.log.num.partitions": "3"}) as made:
        yield made


@pytest.fixture
async def client(running: RunningBroker) -> AsyncIterator[RawClient]:
    async with running.connect() as connected:
        await create(connected)
        await coordinator_of(connected)
        yield connected


@pytest.fixture
async def producer(client: RawClient) -> Producer:
    """Ready to begin."""
    return await Producer(client).init()


# ---- finding the coordinator ----


@pytest.mark.requirement("TXN-09")
async def test_any_broker_names_the_coordinator_and_the_log_is_created_on_demand() -> None:
    """A producer knows a broker or two, and asks them once (KIP-98)."""
    async with running_broker() as made, made.connect() as connected:
        first = await connected.call(1, FindCoordinatorRequest(key=ID, key_type=1))
        node_id = await coordinator_of(connected)
        second = await connected.call(5, FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))

        assert first.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert node_id == made.broker.node_id
        assert second.coordinators[0].port == made.broker.address.port
        assert await connected.call(0, FindCoordinatorRequest(key=GROUP))


@pytest.mark.requirement("TXN-06")
async def test_the_log_of_transactions_is_compacted_and_never_led_by_who_lacks_records(
    client: RawClient,
) -> None:
    """Retention or an unclean leader would lose the outcomes of transactions."""
    wanted = DescribeConfigsRequest([DescribeConfigsResource(2, STATE_LOG)])
    (result,) = (await client.call(4, wanted)).results
    configs = {one.name: one.value for one in result.configs}

    assert configs["cleanup.policy"] == "compact"
    assert configs["unclean.leader.election.enable"] == "false"
    assert configs["compression.type"] == "uncompressed"


async def test_too_few_brokers_for_the_log_is_no_coordinator_yet() -> None:
    """The producer waits for the brokers, and is not told that its request was wrong."""
    settings = {"transaction.state.log.replication.factor": "3"}
    async with running_broker(settings) as made, made.connect() as connected:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
        for _ in range(5):
            (found,) = (await connected.call(4, request)).coordinators
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await asyncio.sleep(0.02)


@pytest.mark.requirement("TXN-05")
async def test_ids_are_spread_over_coordinators_by_their_hash(
    client: RawClient, running: RunningBroker
) -> None:
    """One broker could not serve all ids, and every client must find the same coordinator."""
    ids = [f"id-{number}" for number in range(12)]
    for one in ids:
        await Producer(client, one).init()

    assert {partition_for(one, 3) for one in ids} == {0, 1, 2}
    assert all(state_labels(running.broker, one) == ["Empty"] for one in ids)


# ---- InitProducerId ----


@pytest.mark.requirement("TXN-01", "TXN-12")
async def test_each_start_of_a_producer_gets_the_same_id_and_the_next_epoch(
    client: RawClient,
) -> None:
    """The id ties all lives of a producer together, the epoch tells them apart."""
    lives = [await Producer(client).init() for _ in range(3)]
    other = await Producer(client, "another").init()

    assert len({one.producer_id for one in lives}) == 1
    assert [one.epoch for one in lives] == [0, 1, 2]
    assert other.producer_id != lives[0].producer_id


@pytest.mark.requirement("TXN-11")
async def test_the_producer_id_is_in_the_log_before_the_answer(
    producer: Producer, running: RunningBroker
) -> None:
    """The next coordinator would give the transactional id to another producer id."""
    (stored,) = written_states(state_log(running.broker))

    assert stored is not None
    assert (stored.producer_id, stored.producer_epoch) == (producer.producer_id, producer.epoch)


@pytest.mark.requirement("TXN-02", "TXN-03")
@pytest.mark.parametrize(
    ("api_version", "expected"), [(1, INVALID_EPOCH), (2, FENCED), (3, FENCED)]
)
async def test_the_former_life_of_a_producer_is_refused_everything(
    client: RawClient, producer: Producer, api_version: int, expected: ErrorCode
) -> None:
    """Two that write as one would tear transactions apart. Older versions know another word."""
    await producer.produce(b"before")
    await producer.end(committed=True)
    await Producer(client).init()

    assert await producer.try_add(0, api_version=api_version) == [expected]
    assert await producer.try_add_offsets(GROUP, api_version) in (
        expected,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    assert await producer.try_end(committed=True, api_version=api_version) == expected
    assert await producer.try_init(bump=True, api_version=3) == INVALID_EPOCH
    assert await producer.try_init(bump=True, api_version=4) == FENCED


@pytest.mark.requirement("TXN-04", "TXN-13", "TXN-14")
@pytest.mark.parametrize("version", [1, 2])
async def test_a_new_life_begins_when_the_last_one_s_transaction_is_over(
    client: RawClient, running: RunningBroker, version: int
) -> None:
    """Otherwise its records would end with the next transaction, whatever that comes to."""
    old = await Producer(client, version=version).init()
    await old.produce(b"lost")
    assert (await fetched(client, 0, isolation_level=1)).last_stable_offset == 0
    new = await Producer(client, version=version).init()
    await new.produce(b"kept")
    await new.end(committed=True)
    await new.reaches("CompleteCommit")

    assert await committed_values(client) == [b"kept"]
    assert "PrepareAbort" in state_labels(running.broker)
    assert await old.try_end(committed=True) == FENCED


@pytest.mark.requirement("TXN-48")
async def test_a_timeout_outside_the_limits_is_refused(client: RawClient) -> None:
    """A transaction without end would keep readers waiting as long as it likes."""
    producer = Producer(client)

    assert await producer.try_init(timeout_ms=900_001) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await producer.try_init(timeout_ms=0) == ErrorCode.INVALID_TRANSACTION_TIMEOUT


# ---- partitions and offsets ----


@pytest.mark.requirement("TXN-15", "TXN-16")
async def test_a_transaction_begins_with_the_first_partition_which_is_logged_first(
    producer: Producer, running: RunningBroker
) -> None:
    """The next coordinator has to know which partitions may have records (T-20)."""
    before = await producer.describe()
    await producer.add(0)
    after = await producer.describe()

    assert (before.transaction_state, after.transaction_state) == ("Empty", "Ongoing")
    assert [(topic.topic, topic.partitions) for topic in after.topics] == [("t", [0])]
    assert after.transaction_start_time_ms > 0
    assert state_labels(running.broker) == ["Empty", "Ongoing"]


async def test_a_partition_that_does_not_exist_spoils_the_request(producer: Producer) -> None:
    """The producer has to give its transaction up; half of it must not be in."""
    errors = await producer.try_add(0, 7)

    assert errors == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (await producer.describe()).transaction_state == "Empty"


@pytest.mark.requirement("TXN-07")
async def test_no_client_writes_to_the_log_of_transactions(
    client: RawClient, producer: Producer
) -> None:
    """A record written by a client could change the outcome of a transaction."""
    answer = await produced(client, batch(b"state"), topic=STATE_LOG)
    request = produce(batch(b"state"), topic=STATE_LOG)
    client.send(9, request, "__admin_client")
    of_tool = await client.answer(9, request)
    errors = await producer.try_add(0, topic=STATE_LOG)

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    (partition,) = of_tool.responses[0].partition_responses
    assert partition.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.requirement("TXN-19")
async def test_the_partition_of_a_group_s_offsets_joins_once(
    client: RawClient, producer: Producer, running: RunningBroker
) -> None:
    """The marker has to reach the offsets as it reaches the records."""
    assert await producer.try_add_offsets(GROUP) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await coordinated(client)
    first = await producer.try_add_offsets(GROUP)
    second = await producer.try_add_offsets(GROUP)

    topics = (await producer.describe()).topics
    assert (first, second) == (NONE, NONE)
    assert [(one.topic, one.partitions) for one in topics] == [
        ("__consumer_offsets", [partition_for(GROUP, 50)])
    ]
    assert state_labels(running.broker) == ["Empty", "Ongoing"]


async def test_brokers_add_and_verify_many_transactions_at_once(
    client: RawClient, producer: Producer
) -> None:
    """A partition asks before the first record of a transaction, for many producers (KIP-890)."""
    other = await Producer(client, "another").init()
    await producer.add(0)

    def asked(one: Producer, *, verify_only: bool) -> AddPartitionsToTxnTransaction:
        topics = [AddPartitionsToTxnTopic("t", [0])]
        return AddPartitionsToTxnTransaction(
            one.transactional_id, one.producer_id, one.epoch, verify_only, topics
        )

    async def ask(*, verify_only: bool) -> dict[str, int]:
        transactions = [asked(one, verify_only=verify_only) for one in (producer, other)]
        answer = await client.call(5, AddPartitionsToTxnRequest(transactions))
        return {
            one.transactional_id: one.topic_results[0].results_by_partition[0].partition_error_code
            for one in answer.results_by_transaction
        }

    assert await ask(verify_only=True) == {ID: 0, "another": ErrorCode.TRANSACTION_ABORTABLE}
    assert await ask(verify_only=False) == {ID: 0, "another": 0}
    assert await ask(verify_only=True) == {ID: 0, "another": 0}
