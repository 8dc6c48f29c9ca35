"""One real broker for all foreign clients, and a unique topic name for each test."""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.apis import ApiKey
from tests.interop.support.crews import Crew
from tests.support.broker_process import BrokerProcess
from tests.support.relays.capture import Relay, write_golden

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER_SESSION_MS = 12_000
# What members alone ask; the rest comes from the writer of a test's records as well.
GROUP_APIS = frozenset(
    {
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)


class Bootstrap:
    """The address for clients, and the name of the current client for recorded frames."""

    def __init__(self, address: str, relay: Relay | None = None) -> None:
        self.address = address
        self._relay = relay

    def used_by(self, client: str) -> None:
        """Attribute frames from now on to this client, ``name_version``; to none if it has no
        name."""
        if self._relay is not None:
            self._relay.client = client


@contextmanager
def running_broker(
    folder: Path, options: dict[str, str], only: frozenset[ApiKey] | None = None
) -> Iterator[Bootstrap]:
    """A broker process. Its data goes below the folder.

    With ``CAPTURE_GOLDEN`` in the environment, all requests of the clients go through a relay, and
    missing golden frames are written at the end; delete those to be recorded again. ``only``
    selects APIs, where tests send requests to others themselves.
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
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        # No other client joins the groups here: their only member need not wait.
        "group.initial.rebalance.delay.ms": "0",
    }
    with running_broker(tmp_path_factory.mktemp("broker"), options) as found:
        yield found


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:100]
    return f"{name.strip('-')}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bootstrap]:
    """A broker that does not let the first member wait for long.

    GROUPS_AT names another one, such as Apache Kafka, to see what the clients themselves do."""
    if "GROUPS_AT" in os.environ:
        yield Bootstrap(os.environ["GROUPS_AT"])
        return
    options = {"group.initial.rebalance.delay.ms": "500", "log.segment.bytes": "1048576"}
    # The session of a KIP-848 member is the broker's to say.
    options |= {
        f"group.consumer.{which}session.timeout.ms": str(SERVER_SESSION_MS)
        for which in ("", "min.")
    }
    with running_broker(tmp_path_factory.mktemp("groups"), options, GROUP_APIS) as running:
        yield running


@pytest.fixture
def crew(site: Bootstrap, tmp_path: Path) -> Iterator[Crew]:
    with ExitStack() as stack:
        yield Crew(stack, site, tmp_path)
