"""One real broker for all foreign clients, and a topic name of its own for each test."""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.capture import Relay, write_golden

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ottla.protocol.apis import ApiKey


class Bootstrap:
    """Where clients find the broker; told who comes next, in case the frames are kept."""

    def __init__(self, address: str, relay: Relay | None = None) -> None:
        self.address = address
        self._relay = relay

    def used_by(self, client: str) -> None:
        """Frames from now on are this client's, ``name_version``; nobody's if it has no name."""
        if self._relay is not None:
            self._relay.client = client


@contextmanager
def running_broker(
    folder: Path, options: dict[str, str], only: frozenset[ApiKey] | None = None
) -> Iterator[Bootstrap]:
    """A broker process. Its data goes below the folder.

    With ``CAPTURE_GOLDEN`` in the environment, everything that the clients ask goes through a relay
    and golden frames that are not there yet are written at the end; delete what is to be made anew.
    ``only`` says which APIs, where others are asked by the tests themselves.
    """
    with ExitStack() as stack:
        relay = None
        if os.environ.get("CAPTURE_GOLDEN"):
            relay = stack.enter_context(Relay())
            options = options | {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{relay.port}"}
        running = stack.enter_context(BrokerProcess(folder / "data", options=options))
        if relay is None:
            yield Bootstrap(running.address)
        else:
            relay.target_port = running.port
            yield Bootstrap(f"127.0.0.1:{relay.port}", relay)
            write_golden(relay.captured, only)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bootstrap]:
    """A broker with small segments, so that rolls happen under the clients."""
    options = {
        "log.segment.bytes": "1048576",
        "num.partitions": "2",
        # Nobody else comes into the groups here: their only member need not wait.
        "group.initial.rebalance.delay.ms": "0",
    }
    with running_broker(tmp_path_factory.mktemp("broker"), options) as found:
        yield found


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:100]
    return f"{name.strip('-')}-{uuid.uuid4().hex[:8]}"
