"""Features as clients see them: in ApiVersions, and as administrators change them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.authorization.authorizer import Authorizer
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.support.brokers import Brokers
from tests.support.in_process import running_broker
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestCaller

NAME = "transaction.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3
NONE = ErrorCode.NONE


async def told(client: RawClient, version: int = 4) -> tuple[list[Any], dict[str, int], int]:
    """What is supported, what is finalized, and the epoch of that."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = await client.call(version, request)
    supported = [(one.name, one.min_version, one.max_version) for one in answer.supported_features]
    finalized = {one.name: one.max_version_level for one in answer.finalized_features}
    return supported, finalized, answer.finalized_features_epoch


def wanted(level: int, kind: int = UPGRADE, **more: Any) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(NAME, level, upgrade_type=kind)
    return UpdateFeaturesRequest(feature_updates=[update], **more)


async def test_clients_are_told_from_the_first_one_on(client: RawClient) -> None:
    """Version 2 of transactions is spoken only where the cluster has said so (KIP-890)."""
    assert await told(client) == ([(NAME, 0, 2)], {NAME: 2}, 0)


async def test_a_range_from_zero_is_kept_from_clients_that_cannot_read_it(
    client: RawClient,
) -> None:
    """Those of version 3 would take the whole answer for malformed."""
    assert await told(client, 3) == ([], {NAME: 2}, 0)
    assert (await told(client, 2))[2] == -1


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_level_goes_down_when_that_was_meant_and_up_again(
    client: RawClient, version: int
) -> None:
    """The way back from version 2, should some client not bear it."""
    down = wanted(1, SAFE)
    if version == 0:
        down.feature_updates = [FeatureUpdateKey(NAME, 1, allow_downgrade=True)]
    answer = await client.call(version, down)
    after = await told(client)
    again = await client.call(version, wanted(2))

    assert answer.error_code == again.error_code == NONE
    assert [one.error_code for one in answer.results] == ([] if version == 2 else [NONE])
    assert after[1:] == ({NAME: 1}, 1)
    assert (await told(client))[1:] == ({NAME: 2}, 2)


async def test_level_zero_is_no_feature(client: RawClient) -> None:
    """Clients then speak the classic protocol, whatever they can."""
    assert (await client.call(1, wanted(0, UNSAFE))).error_code == NONE
    assert (await told(client))[1:] == ({}, 1)


async def test_what_is_refused_changes_nothing(client: RawClient) -> None:
    """Not a downgrade by mistake, not an unknown level, and not half of a request."""
    invalid = ErrorCode.INVALID_UPDATE_VERSION
    for request in (wanted(1), wanted(3), wanted(1, 9)):
        for version in (1, 2):
            answer = await client.call(version, request)
            codes = [one.error_code for one in answer.results]
            expected = (NONE, [invalid]) if version == 1 else (invalid, [])
            assert (answer.error_code, codes) == expected
    both = wanted(1, SAFE)
    both.feature_updates.append(FeatureUpdateKey("no.such.version", 1))
    codes = [one.error_code for one in (await client.call(1, both)).results]
    assert codes == [ErrorCode.FEATURE_UPDATE_FAILED, invalid]
    twice = wanted(1, SAFE)
    twice.feature_updates.append(FeatureUpdateKey(NAME, 0, upgrade_type=SAFE))
    assert (await client.call(1, twice)).error_code == invalid
    assert (await client.call(1, wanted(1, SAFE, validate_only=True))).error_code == NONE
    assert (await told(client))[1:] == ({NAME: 2}, 0)


async def test_only_the_controller_changes_them_and_every_broker_tells_of_it() -> None:
    """A client that is refused finds the controller in the metadata."""
    brokers = Brokers(2)
    await brokers.start()
    controller = next(iter(brokers.alive.values())).metadata.controller_id
    answers = {}
    for node_id in sorted(brokers.alive, key=lambda one: one == controller):
        address = brokers.alive[node_id].address
        async with RawClient(address.host, address.port) as client:
            answers[node_id] = (await client.call(1, wanted(1, SAFE))).error_code
    for broker in brokers.alive.values():
        async with asyncio.timeout(60), RawClient(*broker.address[:2]) as client:
            while (await told(client))[1:] != ({NAME: 1}, 1):
                await asyncio.sleep(0.01)
    await brokers.stop()

    assert answers.pop(controller) == NONE
    assert set(answers.values()) == {ErrorCode.NOT_CONTROLLER}


class _Shut(Authorizer):
    def is_allowed(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        return operation is not Operation.ALTER or resource is not AclResourceType.CLUSTER


async def test_who_may_not_alter_the_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A feature level applies to all clients of the cluster."""
    monkeypatch.setattr("ottla.broker.authorization.setup.Authorizer", _Shut)
    async with running_broker() as running, running.connect() as client:
        answer = await client.call(1, wanted(1, SAFE))

        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (await told(client))[1:] == ({NAME: 2}, 0)
