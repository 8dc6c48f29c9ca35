"""A client ends for good when all brokers refuse it, and not because one of them does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.cluster import cluster as module
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.upkeep import Upkeep
from ottla.client.process.environment import real_environment
from ottla.client.settings.config import ClientConfig
from ottla.protocol.ports import Address
from ottla.wire.backoff import Backoff
from ottla.wire.errors import AuthenticationFailed, BrokerUnreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

BROKERS = [Address("127.0.0.1", port) for port in (1, 2, 3)]


def _nothing(*_arguments: object) -> None:
    """The owner is not part of this test."""


async def _refusal(
    monkeypatch: pytest.MonkeyPatch, refusing: Sequence[Address]
) -> AuthenticationFailed | None:
    async def connect(_net: object, _clock: object, address: Address, _config: object) -> None:
        if address in refusing:
            raise AuthenticationFailed(address, "its certificate has expired")
        raise BrokerUnreachable(address, "connection refused")

    monkeypatch.setattr(module, "connect", connect)
    config = ClientConfig(retry_backoff=Backoff(1, 5), reconnect_backoff=Backoff(1, 5))
    cluster = ClusterClient(real_environment(), BROKERS, config)
    upkeep = Upkeep(cluster, _nothing, _nothing)
    await upkeep._refresh()
    cluster.close()
    return upkeep.refusal


@pytest.mark.parametrize("one", BROKERS)
async def test_one_broker_that_refuses_ends_nothing_while_others_are_down(
    one: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling restart with one wrong certificate must not cost a producer its records."""
    assert await _refusal(monkeypatch, [one]) is None


async def test_the_refusal_of_all_brokers_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a user that was deleted."""
    assert isinstance(await _refusal(monkeypatch, BROKERS), AuthenticationFailed)
