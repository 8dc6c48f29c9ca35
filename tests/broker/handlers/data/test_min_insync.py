"""``min.insync.replicas`` above the number of replicas, on a broker that is alone."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.support.groups import Member, commit, committed
from tests.broker.support.groups import coordinated as group_coordinated
from tests.broker.support.requests import batch, create, produce
from tests.broker.support.transactions import (
    ID,
    SMALL,
    StandIn,
    coordinated,
    in_transaction,
    marked,
    produced,
)
from tests.support.in_process import running_broker
from tests.support.pages import figure, page, parse_figures

# A configuration that was written for three brokers.
FOR_THREE = {
    "min.insync.replicas": "2",
    "transaction.state.log.min.isr": "2",
    "ottla.metrics.listener": "127.0.0.1:0",
    **SMALL,
}
UNDER_MIN_ISR = "kafka_server_replicamanager_underminisrpartitioncount"
AT_MIN_ISR = "kafka_server_replicamanager_atminisrpartitioncount"


@pytest.mark.parametrize("client_id", ["raw", None])
async def test_a_broker_alone_takes_acks_all(client_id: str | None) -> None:
    """By the short way and by the general one, which a null client id takes."""
    async with running_broker(FOR_THREE) as running, running.connect() as client:
        await create(client)
        codes = []
        for _ in range(2):
            request = produce(batch(b"x"), -1)
            client.send(11, request, client_id)
            answer = await client.answer(11, request)
            codes.append(answer.responses[0].partition_responses[0].error_code)

        assert codes == [ErrorCode.NONE, ErrorCode.NONE]


async def test_groups_and_transactions_work_on_a_broker_alone() -> None:
    """Their topics have one replica here, and the minimum of two."""
    async with running_broker(FOR_THREE) as running, running.connect() as client:
        await create(client)
        await group_coordinated(client)
        member = Member(client)
        await member.enter()
        stored = await commit(client, {("t", 0): 5}, member=member)
        assert (stored, await committed(client)) == ({("t", 0): ErrorCode.NONE}, {("t", 0): 5})

        await coordinated(client)
        began = await client.call(
            4, InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        )
        joined = await client.call(
            3,
            AddOffsetsToTxnRequest(
                transactional_id=ID,
                producer_id=began.producer_id,
                producer_epoch=began.producer_epoch,
                group_id="my-group",
            ),
        )
        assert (began.error_code, joined.error_code) == (ErrorCode.NONE, ErrorCode.NONE)


async def test_a_marker_ends_a_transaction_on_a_broker_alone() -> None:
    """A marker is appended with acks=all."""
    async with running_broker(FOR_THREE) as running, running.connect() as client:
        await create(client)
        await coordinated(client)
        StandIn(running.broker)
        began = await produced(client, in_transaction())

        assert began.error_code == ErrorCode.NONE
        assert await marked(client) == [ErrorCode.NONE]


async def test_partitions_with_all_their_replicas_are_at_the_minimum_and_not_under_it() -> None:
    """An alarm on the gauge is for partitions that refuse acks=all."""
    async with running_broker(FOR_THREE) as running, running.connect() as client:
        await create(client)
        found = parse_figures((await page(running.broker.pages.address, "/metrics")).text)

        assert (figure(found, UNDER_MIN_ISR), figure(found, AT_MIN_ISR)) == (0, 1)
