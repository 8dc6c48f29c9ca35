"""Several listeners: each client is told the addresses of the one it came through."""

from __future__ import annotations

import pytest

from ottla.protocol.messages.metadata import MetadataRequest
from tests.support.in_process import running_broker
from tests.support.raw_client import RawClient

TWO = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.2:0",
    "advertised.listeners": "INSIDE://127.0.0.1:0,OUTSIDE://broker.example:19092",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}


async def test_metadata_tells_the_addresses_of_the_listener_in_use() -> None:
    """A client outside cannot reach the inner address, and the other way round (KIP-103)."""
    async with running_broker(TWO) as running:
        told = {}
        for name, address in running.broker.addresses.items():
            async with RawClient(address.host, address.port) as client:
                (node,) = (await client.call(9, MetadataRequest(topics=[]))).brokers
                told[name] = (node.host, node.port)

        assert told == {
            "INSIDE": ("127.0.0.1", running.broker.addresses["INSIDE"].port),
            "OUTSIDE": ("broker.example", 19092),
        }


@pytest.mark.requirement("NET-01")
async def test_roles_are_named_in_diagnostics() -> None:
    """One acceptor, as many processors and handlers as were configured, each by its name."""
    settings = {"num.network.threads": "3", "num.io.threads": "8"}
    async with running_broker(settings) as running, running.connect() as client:
        await client.call(9, MetadataRequest(topics=[]))
        assert running.broker.network is not None
        shown = running.broker.network.diagnostics()

    assert [processor.name for processor in shown.processors] == [
        "processor-0",
        "processor-1",
        "processor-2",
    ]
    assert [handler.name for handler in shown.handlers] == [f"handler-{n}" for n in range(8)]
    assert shown.acceptor is not None
