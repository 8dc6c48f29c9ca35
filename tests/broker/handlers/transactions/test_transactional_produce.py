"""Transactional produce: who may open a transaction, and what becomes of those who come late."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.metadata import MetadataRequest
from tests.broker.support.requests import TOPIC, batch, create, fetched
from tests.broker.support.transactions import (
    ID,
    PRODUCER,
    SMALL,
    StandIn,
    coordinated,
    in_transaction,
    marked,
    marker_request,
    produce_request,
    produced,
)
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

NONE = ErrorCode.NONE


@asynccontextmanager
async def scene(
    **settings: str,
) -> AsyncIterator[tuple[RunningBroker, RawClient, StandIn]]:
    """A broker with a topic of two partitions, and a coordinator that the test plays."""
    names = {name.replace("_", "."): value for name, value in settings.items()}
    async with running_broker(SMALL | names) as running, running.connect() as client:
        await create(client, partitions=2)
        await coordinated(client)
        yield running, client, StandIn(running.broker)


@pytest.mark.parametrize("version", [3, 8, 11, 12])
async def test_the_first_batch_of_a_transaction_asks_and_the_others_do_not(version: int) -> None:
    """One question for each partition and transaction, whatever the version."""
    async with scene() as (_running, client, coordinator):
        answers = [await produced(client, in_transaction(number), version) for number in range(3)]

        assert [(one.error_code, one.base_offset) for one in answers] == [
            (NONE, 0),
            (NONE, 1),
            (NONE, 2),
        ]
        (asked,) = coordinator.asked
        assert asked.partitions == (TopicPartition(TOPIC, 0),)
        assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == (
            ID,
            PRODUCER,
            0,
        )
        # From version 12 on the question makes the partition part of the transaction.
        adds = version >= 12
        assert (asked.is_verification, asked.transaction_version) == (not adds, 2 if adds else 1)


async def test_partitions_of_one_request_are_asked_for_together() -> None:
    """Each partition has an error of its own."""
    async with scene() as (_running, client, coordinator):
        coordinator.errors = {TopicPartition(TOPIC, 1): ErrorCode.TRANSACTION_ABORTABLE}
        request = produce_request({0: in_transaction(), 1: in_transaction()})
        response = await client.call(11, request)

        answers = response.responses[0].partition_responses
        assert [one.error_code for one in answers] == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
        assert len(coordinator.asked) == 1
        assert len(coordinator.asked[0].partitions) == 2


@pytest.mark.parametrize(
    ("verdict", "old", "abortable", "adding"),
    [
        (ErrorCode.INVALID_TXN_STATE,) * 4,
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING,) * 4,
        (ErrorCode.INVALID_PRODUCER_EPOCH,) * 4,
        (ErrorCode.PRODUCER_FENCED, *(ErrorCode.INVALID_PRODUCER_EPOCH,) * 3),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.INVALID_TXN_STATE,
            *(ErrorCode.TRANSACTION_ABORTABLE,) * 2,
        ),
        (ErrorCode.NOT_COORDINATOR, *(ErrorCode.NOT_ENOUGH_REPLICAS,) * 3),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, *(ErrorCode.NOT_ENOUGH_REPLICAS,) * 3),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, *(ErrorCode.NOT_ENOUGH_REPLICAS,) * 3),
        (ErrorCode.NETWORK_EXCEPTION, *(ErrorCode.NOT_ENOUGH_REPLICAS,) * 3),
        (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            *(ErrorCode.NOT_ENOUGH_REPLICAS,) * 2,
            ErrorCode.CONCURRENT_TRANSACTIONS,
        ),
    ],
)
async def test_verdicts_are_told_in_words_that_the_version_knows(
    verdict: ErrorCode, old: ErrorCode, abortable: ErrorCode, adding: ErrorCode
) -> None:
    """A code that a producer does not expect costs it its transaction, or exactly-once (T-08)."""
    async with scene() as (_running, client, coordinator):
        coordinator.error = verdict
        told = [
            (await produced(client, in_transaction(), version)).error_code
            for version in (10, 11, 12)
        ]

        assert told == [old, abortable, adding]
        assert (await fetched(client, 0)).high_watermark == 0


@pytest.mark.requirement("TXN-18")
@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [
        (None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_transactional_records_need_a_transactional_id(
    transactional_id: str | None, code: ErrorCode
) -> None:
    """Without the id no coordinator can verify them or end the transaction that they open
    (T-26)."""
    async with scene() as (_running, client, coordinator):
        answer = await produced(client, in_transaction(), transactional_id=transactional_id)

        assert answer.error_code == code
        assert coordinator.asked == []
        assert (await fetched(client, 0)).high_watermark == 0


async def test_a_producer_id_must_be_that_of_the_transactional_id() -> None:
    """The coordinator knows whose it is; what it refuses for good leaves no trace (T-26)."""
    async with scene() as (running, client, coordinator):
        coordinator.error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        answers = [
            await produced(client, in_transaction(producer_id=number)) for number in range(5)
        ]

        codes = {answer.error_code for answer in answers}
        assert codes == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        partition = running.broker.partitions.find(TOPIC, 0)
        assert partition is not None
        assert partition.replica.leading is not None
        assert len(partition.replica.leading.verifications) == 0


async def test_one_request_has_one_producer() -> None:
    """A transactional id has one producer id; a second one belongs to another producer (T-26)."""
    async with scene() as (_running, client, coordinator):
        request = produce_request({0: in_transaction(), 1: in_transaction(producer_id=1)})
        response = await client.call(11, request)

        answers = response.responses[0].partition_responses
        codes = {one.error_code for one in answers}
        assert codes == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert coordinator.asked == []


async def test_plain_records_of_a_transactional_producer_are_plain_records() -> None:
    """Librdkafka and others send the id always (KAFKA-14916)."""
    async with scene() as (_running, client, coordinator):
        plain = batch(b"x", producer_id=PRODUCER, producer_epoch=0, base_sequence=0)

        assert (await produced(client, plain)).error_code == NONE
        assert coordinator.asked == []


async def test_plain_and_transactional_batches_of_one_request_have_their_own_fates() -> None:
    """Clients do not mix them; if one does, neither may hide the other's error."""
    async with scene() as (_running, client, coordinator):
        coordinator.error = ErrorCode.INVALID_TXN_STATE
        request = produce_request({0: in_transaction(), 1: batch(b"x")})
        answers = (await client.call(11, request)).responses[0].partition_responses

        assert [one.error_code for one in answers] == [ErrorCode.INVALID_TXN_STATE, NONE]


async def test_a_produce_that_is_overtaken_by_the_end_of_its_transaction_is_not_written() -> None:
    """Verified, ended, and only then written, it would hang for ever (T-13). The producer retries,
    and by then its coordinator knows the end."""
    async with scene() as (running, client, coordinator), running.connect() as other:
        coordinator.is_holding = True
        client.send(11, produce_request(in_transaction()))
        await coordinator.until_asked()
        assert await marked(other, commit=False) == [NONE]
        coordinator.release()
        late = await client.answer(11, produce_request(b""))

        (told,) = late.responses[0].partition_responses
        # What producers of this version take for "again"; they do not know the error itself.
        assert told.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert told.error_message == "the coordinator says: CONCURRENT_TRANSACTIONS"
        answer = await fetched(client, 0, isolation_level=1)
        # The marker alone.
        assert (answer.high_watermark, answer.last_stable_offset) == (1, 1)


async def test_a_coordinator_older_than_the_last_end_is_not_believed() -> None:
    """Cut off from the others, it would say yes to what its successor has ended (T-15)."""
    async with scene() as (_running, client, coordinator):
        await produced(client, in_transaction())
        await marked(client, coordinator_epoch=1)
        early = await produced(client, in_transaction(1))

        # The metadata of this broker still names the one of epoch 0; the producer comes again.
        assert early.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert len(coordinator.asked) == 1


async def test_a_retry_that_overtakes_the_original_is_recognised() -> None:
    """The old connection's copy wakes up when the new one's is in the log: one record."""
    async with scene() as (running, client, coordinator), running.connect() as other:
        coordinator.is_holding = True
        client.send(11, produce_request(in_transaction()))
        other.send(11, produce_request(in_transaction()))
        await coordinator.until_asked(2)
        coordinator.release()
        answers = [await one.answer(11, produce_request(b"")) for one in (client, other)]

        parts = [answer.responses[0].partition_responses[0] for answer in answers]
        assert [(one.error_code, one.base_offset) for one in parts] == [(NONE, 0)] * 2
        assert (await fetched(client, 0)).high_watermark == 1


async def test_a_question_holds_its_connection_and_no_other() -> None:
    """Batches of one connection stay in order, and more pending questions than handlers block no
    other connection."""
    async with (
        scene(num_io_threads="1") as (running, client, coordinator),
        running.connect() as second,
        running.connect() as third,
    ):
        coordinator.is_holding = True
        for number in range(3):
            client.send(11, produce_request(in_transaction(number)))
        second.send(11, produce_request({1: in_transaction()}))
        await coordinator.until_asked(2)
        served = await third.call(9, MetadataRequest(topics=None))
        await asyncio.sleep(0.05)
        asked_meanwhile = len(coordinator.asked)
        coordinator.release()
        answers = [await client.answer(11, produce_request(b"")) for _ in range(3)]
        await second.answer(11, produce_request(b""))

        assert served.topics
        assert asked_meanwhile == 2
        parts = [answer.responses[0].partition_responses[0] for answer in answers]
        codes = [(one.error_code, one.base_offset) for one in parts]
        assert codes == [(NONE, 0), (NONE, 1), (NONE, 2)]


async def test_the_beginning_of_the_next_transaction_waits_a_moment_for_the_last_one() -> None:
    """In version 2 the producer continues before all markers are written; it should not have to
    send its records twice."""
    async with scene() as (_running, client, coordinator):
        coordinator.error = ErrorCode.CONCURRENT_TRANSACTIONS
        client.send(12, produce_request(in_transaction()))
        await coordinator.until_asked(2)
        coordinator.error = NONE
        answer = await client.answer(12, produce_request(b""))

        assert answer.responses[0].partition_responses[0].error_code == NONE
        assert len(coordinator.asked) == 3


@pytest.mark.parametrize(("version", "asked_count"), [(11, 0), (12, 1)])
async def test_verification_can_be_switched_off_but_not_what_adds(
    version: int, asked_count: int
) -> None:
    """transaction.partition.verification.enable=false trusts producers of version 1."""
    off = {"transaction_partition_verification_enable": "false"}
    async with scene(**off) as (_running, client, coordinator):
        answer = await produced(client, in_transaction(), version)

        assert answer.error_code == NONE
        assert len(coordinator.asked) == asked_count


async def test_without_an_answer_owed_a_refusal_closes_the_connection() -> None:
    """With acks=0 the producer learns of it in no other way."""
    async with scene() as (_running, client, coordinator):
        coordinator.error = ErrorCode.INVALID_TXN_STATE
        client.send(11, produce_request(in_transaction(), acks=0))

        with pytest.raises(EOFError):
            await client.frame()


async def test_compressed_batches_of_a_compacted_topic_are_looked_into_first() -> None:
    """They suspend twice, and are written in the step of the answer all the same."""
    async with scene() as (running, client, coordinator), running.connect() as other:
        await create(client, "compacted", cleanup_policy="compact")
        coordinator.is_holding = True
        client.send(11, produce_request(in_transaction(), topic="compacted"))
        request = marker_request(commit=False, places={"compacted": [0]})
        refused = await client.answer(11, produce_request(b""))

        # A record without a key is refused before the coordinator is asked.
        part = refused.responses[0].partition_responses[0]
        assert part.error_code == ErrorCode.INVALID_RECORD
        assert coordinator.asked == []
        assert (await other.call(2, request)).markers
