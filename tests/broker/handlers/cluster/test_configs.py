"""Changing settings: what a request may not say twice, and that nothing comes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from tests.broker.support.requests import create
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

TOPIC_RESOURCE = 2
SET = 0
Wish = tuple[str, list[tuple[str, str]]]


async def alter(client: RawClient, *wishes: Wish) -> list[tuple[str, int]]:
    """Replace the settings of topics."""
    resources = [
        alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=name,
            configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in items],
        )
        for name, items in wishes
    ]
    answer = await client.call(2, alter_configs.AlterConfigsRequest(resources=resources))
    return [(one.resource_name, one.error_code) for one in answer.responses]


async def change(client: RawClient, *wishes: Wish) -> list[tuple[str, int]]:
    """Change single settings of topics."""
    resources = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=name,
            configs=[
                incremental_alter_configs.AlterableConfig(
                    name=key, config_operation=SET, value=value
                )
                for key, value in items
            ],
        )
        for name, items in wishes
    ]
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources)
    answer = await client.call(1, request)
    return [(one.resource_name, one.error_code) for one in answer.responses]


Ask = Callable[..., Awaitable[list[tuple[str, int]]]]


def retention_of(running: RunningBroker, name: str) -> str | None:
    """Returns the retention that is set for a topic, or None."""
    return running.broker.metadata.config("topics", name).get("retention.ms")


@pytest.mark.parametrize("ask", [alter, change])
async def test_a_resource_that_occurs_twice_is_changed_by_neither(
    ask: Ask,
) -> None:
    """Kafka refuses both; of two wishes that differ the second one won here in silence."""
    async with running_broker() as running, running.connect() as client:
        for name in ("a", "b"):
            await create(client, name)
        codes = await ask(
            client,
            ("a", [("retention.ms", "1000")]),
            ("b", [("retention.ms", "2000")]),
            ("a", [("retention.ms", "3000")]),
        )

        invalid = ErrorCode.INVALID_REQUEST
        assert codes == [("a", invalid), ("b", ErrorCode.NONE), ("a", invalid)]
        assert retention_of(running, "a") is None
        assert retention_of(running, "b") == "2000"


@pytest.mark.parametrize("ask", [alter, change])
async def test_a_setting_that_occurs_twice_is_not_set(
    ask: Ask,
) -> None:
    """The neighbour with one of each is."""
    async with running_broker() as running, running.connect() as client:
        for name in ("a", "b"):
            await create(client, name)
        codes = await ask(
            client,
            ("a", [("retention.ms", "1000"), ("retention.ms", "1000")]),
            ("b", [("retention.ms", "2000"), ("segment.ms", "1000")]),
        )

        assert codes == [("a", ErrorCode.INVALID_REQUEST), ("b", ErrorCode.NONE)]
        assert retention_of(running, "a") is None
        assert retention_of(running, "b") == "2000"


@pytest.mark.requirement("LOG-34")
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_what_coordinators_live_on_stays_compacted(topic: str) -> None:
    """With retention, positions and transactions that still count would go after a week; the
    older request takes back whatever it does not name."""
    async with running_broker() as running, running.connect() as client:
        await create(client, topic)
        codes = [
            await change(client, (topic, [("cleanup.policy", "delete")])),
            await change(client, (topic, [("cleanup.policy", "compact,delete")])),
            await alter(client, (topic, [("segment.bytes", "1048576")])),
        ]
        allowed = [
            await change(client, (topic, [("segment.bytes", "2097152")])),
            await alter(client, (topic, [("cleanup.policy", "compact")])),
        ]

        assert codes == [[(topic, ErrorCode.INVALID_CONFIG)]] * 3
        assert allowed == [[(topic, ErrorCode.NONE)]] * 2
        assert running.broker.metadata.config("topics", topic)["cleanup.policy"] == "compact"


@pytest.mark.parametrize("count", [16, 17])
async def test_one_request_asks_for_the_progress_of_a_bounded_number_of_records(
    count: int,
) -> None:
    """Each of them may look through 50,000 marks, and a request has room for thousands."""
    settings = {"ottla.trace.interval.ms": "1000"}
    half = [f"ottla.progress.0.{number}" for number in range(count // 2)]
    other = [f"ottla.progress.0.{number}" for number in range(count - len(half))]
    async with running_broker(settings) as running, running.connect() as client:
        for name in ("a", "b"):
            await create(client, name)
        resources = [
            describe_configs.DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=keys
            )
            for name, keys in (("a", half), ("b", other))
        ]
        answer = await client.call(4, describe_configs.DescribeConfigsRequest(resources=resources))

    codes = {one.error_code for one in answer.results}
    listed = sum(len(one.configs) for one in answer.results)
    assert (codes, listed) == (
        ({ErrorCode.NONE}, 16) if count == 16 else ({ErrorCode.INVALID_REQUEST}, 0)
    )
