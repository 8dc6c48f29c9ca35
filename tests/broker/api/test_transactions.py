"""A broker as coordinator of transactions: what it answers, what is in its log when it answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.testing.memory_disk import MemoryDisk
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
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.api.groups import GROUP, coordinated
from tests.broker.api.requests import batch, create, fetched, produced
from tests.broker.api.transactional import (
    ID,
    Producer,
    committed_values,
    coordinator_of,
    written_states,
)
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.runtime.partition import PartitionRuntime
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


def state_log(running: RunningBroker, transactional_id: str = ID) -> PartitionRuntime:
    found = running.broker.partitions.find(STATE_LOG, partition_for(transactional_id, 3))
    assert found is not None
    return found


def labels(running: RunningBroker, transactional_id: str = ID) -> list[str]:
    """The states that the log has seen, oldest first."""
    states = written_states(state_log(running, transactional_id), transactional_id)
    return ["tombstone" if one is None else one.state.label for one in states]


# ---- finding the coordinator ----


@pytest.mark.requirement("TXN-09")
async def test_whoever_is_asked_names_the_coordinator_and_the_log_is_made_on_demand() -> None:
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
    """State that retention deletes, or that an unclean leader has lost, is somebody's outcome."""
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
    """No broker could bear them all, and everybody must find the same one."""
    ids = [f"id-{number}" for number in range(12)]
    for one in ids:
        await Producer(client, one).init()

    assert {partition_for(one, 3) for one in ids} == {0, 1, 2}
    assert all(labels(running, one) == ["Empty"] for one in ids)


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
    (stored,) = written_states(state_log(running))

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
    assert "PrepareAbort" in labels(running)
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
    """Whoever takes over has to know where records may lie (T-20)."""
    before = await producer.describe()
    await producer.add(0)
    after = await producer.describe()

    assert (before.transaction_state, after.transaction_state) == ("Empty", "Ongoing")
    assert [(topic.topic, topic.partitions) for topic in after.topics] == [("t", [0])]
    assert after.transaction_start_time_ms > 0
    assert labels(running) == ["Empty", "Ongoing"]


async def test_a_partition_that_does_not_exist_spoils_the_request(producer: Producer) -> None:
    """The producer has to give its transaction up; half of it must not be in."""
    errors = await producer.try_add(0, 7)

    assert errors == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (await producer.describe()).transaction_state == "Empty"


@pytest.mark.requirement("TXN-07")
async def test_no_client_writes_to_the_log_of_transactions(
    client: RawClient, producer: Producer
) -> None:
    """One record of its own would be somebody's outcome."""
    answer = await produced(client, batch(b"state"), topic=STATE_LOG)
    errors = await producer.try_add(0, topic=STATE_LOG)

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
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
    assert labels(running) == ["Empty", "Ongoing"]


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


# ---- the end ----


@pytest.mark.requirement("TXN-22", "TXN-23", "TXN-25", "TXN-35")
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [1, 2])
async def test_a_transaction_passes_through_its_states_in_order(
    client: RawClient, running: RunningBroker, version: int, committed: bool
) -> None:
    """What is prepared is decided; what is complete has its markers everywhere."""
    producer = await Producer(client, version=version).init()
    epoch = producer.epoch
    await producer.produce(b"x")
    await producer.end(committed=committed)
    verdict = "Commit" if committed else "Abort"
    await producer.reaches(f"Complete{verdict}")

    expected = ["Empty", "Ongoing", f"Prepare{verdict}", f"Complete{verdict}"]
    assert labels(running) == expected
    assert producer.epoch == epoch + (version == 2)


@pytest.mark.requirement("TXN-29", "TXN-30")
@pytest.mark.parametrize("version", [1, 2])
async def test_what_is_committed_shows_and_what_is_aborted_does_not(
    client: RawClient, version: int
) -> None:
    """All of a transaction at once, or nothing of it ever."""
    producer = await Producer(client, version=version).init()
    for value, committed in ((b"a", True), (b"b", False), (b"c", True)):
        await producer.produce(value, value)
        await producer.end(committed=committed)
    await producer.reaches("CompleteCommit")

    assert await committed_values(client) == [b"a", b"a", b"c", b"c"]
    assert (await fetched(client, 0, isolation_level=1)).last_stable_offset == 9


@pytest.mark.requirement("TXN-44")
async def test_an_end_without_a_beginning_is_refused(producer: Producer) -> None:
    """It is a fault of the client, which has to hear of it."""
    assert await producer.try_end(committed=True) == INVALID_STATE
    await producer.add(0)
    await producer.end(committed=True)
    await producer.reaches("CompleteCommit")
    assert await producer.try_end(committed=False) == INVALID_STATE


@pytest.mark.requirement("TXN-52")
@pytest.mark.parametrize("version", [1, 2])
async def test_an_end_that_is_repeated_succeeds_again(client: RawClient, version: int) -> None:
    """The first answer may have been lost with the connection."""
    producer = await Producer(client, version=version).init()
    await producer.produce(b"x")
    before = (producer.producer_id, producer.epoch)
    await producer.end(committed=True)
    after = (producer.producer_id, producer.epoch)
    await producer.reaches("CompleteCommit")
    producer.producer_id, producer.epoch = before

    assert await producer.try_end(committed=True) == NONE
    assert (producer.producer_id, producer.epoch) == after


@pytest.mark.requirement("TXN-42")
async def test_an_id_that_nobody_has_begun_has_no_mapping(client: RawClient) -> None:
    """The producer starts over with InitProducerId."""
    stranger = Producer(client, "nobody")
    stranger.producer_id, stranger.epoch = 77, 0

    expected = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await stranger.try_add(0) == [expected]
    assert await stranger.try_end(committed=True) == expected


async def test_a_wrong_coordinator_says_so(client: RawClient, running: RunningBroker) -> None:
    """The producer looks for the right one (TXN-43)."""
    partition = state_log(running)
    partition.stop()
    await asyncio.sleep(0)

    assert await Producer(client).try_init() == ErrorCode.NOT_COORDINATOR


# ---- a broker that comes back ----


@pytest.mark.requirement("TXN-06", "TXN-11")
@pytest.mark.parametrize("version", [1, 2])
async def test_an_open_transaction_goes_on_after_a_restart(version: int) -> None:
    """The coordinator keeps nothing but its log."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as made, made.connect() as connected:
        await create(connected)
        await coordinator_of(connected)
        first = await Producer(connected, version=version).init()
        await first.produce(b"before")
    async with running_broker(disk=disk) as made, made.connect() as connected:
        first.client = first.leader = connected
        await coordinator_of(connected)
        await first.produce(b"after")
        await first.end(committed=True)
        await first.reaches("CompleteCommit")

        assert await committed_values(connected) == [b"before", b"after"]


# ---- time ----


@pytest.mark.requirement("TXN-53", "TXN-57", "TXN-58")
async def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    """Readers behind it would wait for a producer that may never come back."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    async with running_broker(settings) as made, made.connect() as connected:
        await create(connected)
        await coordinator_of(connected)
        producer = await Producer(connected).init(timeout_ms=100)
        await producer.produce(b"late")
        await producer.reaches("CompleteAbort")

        assert await committed_values(connected) == []
        assert (await fetched(connected, 0, isolation_level=1)).last_stable_offset == 2
        assert await producer.try_end(committed=True) == FENCED
        assert await producer.try_produce(b"zombie") == INVALID_EPOCH


# ---- looking at them ----


async def test_transactions_are_listed_and_described(client: RawClient, producer: Producer) -> None:
    """Whoever looks for what holds readers back begins here (T-25, KIP-664)."""
    await Producer(client, "idle").init()
    await producer.add(0)

    async def listed(**more: object) -> list[str]:
        answer = await client.call(2, ListTransactionsRequest(**more))  # type: ignore[arg-type]
        assert answer.error_code == NONE
        return sorted(one.transactional_id for one in answer.transaction_states)

    assert await listed() == ["idle", ID]
    assert await listed(state_filters=["Ongoing"]) == [ID]
    assert await listed(producer_id_filters=[producer.producer_id]) == [ID]
    assert await listed(duration_filter=60_000) == []
    assert await listed(duration_filter=0) == [ID]
    assert await listed(transactional_id_pattern="id.*") == ["idle"]
    unknown = await client.call(0, ListTransactionsRequest(state_filters=["Confused"]))
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Confused"], [])
    wrong = await client.call(2, ListTransactionsRequest(transactional_id_pattern="("))
    assert wrong.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    described = await Producer(client, "nobody").describe()
    assert described.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
