"""What requests about traces may cost a broker, and that commands are not refused for it."""

from __future__ import annotations

import pytest

from ottla.broker.tracing.one_request import ABANDONED_MS, WATCHES_MAX
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import describe_configs
from tests.broker.support.requests import create
from tests.broker.tracing.test_one_request import ask, traces_of
from tests.support.in_process import running_broker

BROKER_RESOURCE = 4


@pytest.mark.parametrize("count", [8, 9])
async def test_a_request_asks_for_a_bounded_number_of_traces(count: int) -> None:
    """Also if it names the broker many times: each of them looks through 4,096 marks."""
    names = [f"ottla.trace.0.{number}.t" for number in range(count)]
    resources = [
        describe_configs.DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=[name]
        )
        for name in names
    ]
    async with running_broker() as running, running.connect() as client:
        await create(client, "t")
        answer = await client.call(4, describe_configs.DescribeConfigsRequest(resources=resources))

    codes = {one.error_code for one in answer.results}
    assert codes == {ErrorCode.NONE if count == 8 else ErrorCode.INVALID_REQUEST}


async def test_commands_that_have_ended_make_room() -> None:
    """An operator sends more than eight traced requests in half a minute."""
    async with running_broker() as running, running.connect() as client:
        await create(client, partitions=WATCHES_MAX + 1)
        for number in range(WATCHES_MAX):
            await ask(client, f"ottla.trace.{number}.-1.t")
        traces, name = traces_of(running), f"ottla.trace.{WATCHES_MAX}.-1.t"
        refused = await ask(client, name)
        ended = next(iter(traces._watches.values()))
        ended.asked_ms -= ABANDONED_MS
        taken = await ask(client, name)

    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "traces 8 requests already" in refused.error_message
    assert taken.error_code == ErrorCode.NONE
    assert traces.count == WATCHES_MAX
    assert ended.parked is not None
    assert ended.parked.done
