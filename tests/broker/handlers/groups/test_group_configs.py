"""Settings of single groups over the wire: altered, described, kept, and obeyed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.acls import AclResourceType
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.broker.handlers.groups.test_coordinators import ClosedTo
from tests.broker.support.groups import GROUP, QUICK, coordinated
from tests.broker.support.requests import create
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

GROUP_RESOURCE = 32
SESSION = "consumer.session.timeout.ms"
INTERVAL = "consumer.heartbeat.interval.ms"
SET, DELETE = 0, 1


async def change(
    client: RawClient, name: str, value: str | None, group_id: str = GROUP
) -> tuple[int, str | None]:
    """Set one setting, or with no value take it back."""
    config = incremental_alter_configs.AlterableConfig(
        name=name, config_operation=DELETE if value is None else SET, value=value
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group_id, configs=[config]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = (await client.call(1, request)).responses
    return answer.error_code, answer.error_message


async def described(client: RawClient) -> dict[str, tuple[str, int]]:
    """Values and their sources."""
    resource = DescribeConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=GROUP, configuration_keys=None
    )
    (result,) = (await client.call(4, DescribeConfigsRequest([resource]))).results
    assert result.error_code == ErrorCode.NONE
    return {one.name: (one.value, one.config_source) for one in result.configs}


async def interval_ms(client: RawClient, member_id: str) -> int:
    """The heartbeat interval that a joining member gets."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = await client.call(1, request)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    given: int = answer.heartbeat_interval_ms
    return given


async def test_what_is_set_for_a_group_counts_at_once_and_after_a_restart() -> None:
    """Also where the group does not exist yet: it is set up before the application starts."""
    disk = MemoryDisk()
    async with running_broker(QUICK, disk) as running, running.connect() as client:
        await create(client, "t", 1)
        await coordinated(client)
        before = await interval_ms(client, "a")
        assert await change(client, INTERVAL, "7000") == (ErrorCode.NONE, None)
        assert await change(client, SESSION, "50000") == (ErrorCode.NONE, None)

        assert (before, await interval_ms(client, "a")) == (5_000, 7_000)
        assert await described(client) == {INTERVAL: ("7000", 8), SESSION: ("50000", 8)}

    async with running_broker(QUICK, disk) as running, running.connect() as client:
        await coordinated(client)

        assert await interval_ms(client, "a") == 7_000
        assert await change(client, INTERVAL, None) == (ErrorCode.NONE, None)
        assert await interval_ms(client, "a") == 5_000
        assert await described(client) == {INTERVAL: ("5000", 5), SESSION: ("50000", 8)}


async def test_what_cannot_be_is_refused_with_a_sentence() -> None:
    """Nothing of it is kept."""
    async with running_broker(QUICK) as running, running.connect() as client:
        error, text = await change(client, SESSION, "1000")
        unknown, _text = await change(client, "consumer.session.timeout", "50000")
        unnamed, _text = await change(client, SESSION, "50000", group_id="")

        assert error == unknown == ErrorCode.INVALID_CONFIG
        assert "group.consumer.min.session.timeout.ms" in str(text)
        assert unnamed == ErrorCode.INVALID_REQUEST
        assert await described(client) == {INTERVAL: ("5000", 5), SESSION: ("45000", 5)}


async def test_alter_configs_replaces_all_that_is_set() -> None:
    """The older request, which has no other way to take something back."""
    async with running_broker(QUICK) as running, running.connect() as client:
        await change(client, INTERVAL, "7000")
        config = alter_configs.AlterableConfig(name=SESSION, value="46000")
        resource = alter_configs.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=[config]
        )

        answer = await client.call(2, alter_configs.AlterConfigsRequest(resources=[resource]))

        assert answer.responses[0].error_code == ErrorCode.NONE
        assert await described(client) == {INTERVAL: ("5000", 5), SESSION: ("46000", 8)}


async def test_a_refused_caller_is_told_that_it_is_about_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The right to a group's settings is one of the group's, not of the cluster's."""
    monkeypatch.setattr(
        "ottla.broker.authorization.setup.Authorizer", lambda: ClosedTo(AclResourceType.GROUP)
    )
    async with running_broker(QUICK) as running, running.connect() as client:
        error, _text = await change(client, SESSION, "50000")

        assert error == ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("group_id", [".", "..", "a/b", "\0"])
async def test_groups_of_any_name_have_settings(group_id: str) -> None:
    """Names of groups are free, and settings are kept in paths that are not."""
    async with running_broker() as running, running.connect() as client:
        answer = await change(client, SESSION, "47000", group_id)

        assert answer == (ErrorCode.NONE, None)
