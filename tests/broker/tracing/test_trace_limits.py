"""What one request about traces may cost a broker."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import describe_configs
from tests.broker.support.requests import create
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
