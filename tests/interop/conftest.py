"""One real broker for all foreign clients, and a topic name of its own for each test."""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.capture import Relay, write_golden

if TYPE_CHECKING:
    from collections.abc import Iterator


class Bootstrap:
    """Where clients find the broker; told who comes next, in case the frames are kept."""

    def __init__(self, address: str, relay: Relay | None = None) -> None:
        self.address = address
        self._relay = relay

    def used_by(self, client: str) -> None:
        """Frames from now on are this client's, ``name_version``."""
        if self._relay is not None:
            self._relay.client = client


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bootstrap]:
    """A broker process with small segments, so that rolls happen under the clients.

    With ``CAPTURE_GOLDEN`` in the environment, everything that the clients ask goes through a relay
    and the golden frames are written anew when the tests have ended.
    """
    folder = tmp_path_factory.mktemp("broker")
    options = {"log.segment.bytes": "1048576", "num.partitions": "2"}
    with ExitStack() as stack:
        relay = None
        if os.environ.get("CAPTURE_GOLDEN"):
            relay = stack.enter_context(Relay())
            options["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{relay.port}"
        running = stack.enter_context(BrokerProcess(folder / "data", options=options))
        if relay is None:
            yield Bootstrap(running.address)
        else:
            relay.target_port = running.port
            yield Bootstrap(f"127.0.0.1:{relay.port}", relay)
            write_golden(relay.captured)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:100]
    return f"{name.strip('-')}-{uuid.uuid4().hex[:8]}"
