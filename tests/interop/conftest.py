"""One real broker for all foreign clients, and a topic name of its own for each test."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker process with small segments, so that rolls happen under the clients."""
    folder = tmp_path_factory.mktemp("broker")
    options = {"log.segment.bytes": "1048576", "num.partitions": "2"}
    with BrokerProcess(folder / "data", options=options) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:100]
    return f"{name.strip('-')}-{uuid.uuid4().hex[:8]}"
