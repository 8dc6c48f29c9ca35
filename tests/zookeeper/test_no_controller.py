"""The error message that an operator gets from a cluster that has lost its ZooKeeper."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cli.cluster.cluster import WITHOUT_CONTROLLER
from ottla.client.cli.cluster.diagnosis import NO_PRODUCER_ID, explained
from ottla.client.cli.run import sentence
from ottla.client.settings.config import ClientConfig
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused
from tests.client.cli.command import ottla
from tests.support.broker_process import BrokerProcess
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUICK = ClientConfig(call_timeout_ms=1_500)
LIMIT_SECONDS = 90.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The broker's address, and where its ZooKeeper was."""
    folder: Path = tmp_path_factory.mktemp("lost")
    options = {
        "zookeeper.session.timeout.ms": "3000",
        "zookeeper.connection.timeout.ms": "60000",
    }
    with ZooKeeperServer() as zookeeper:
        extra = ["--zookeeper", zookeeper.address, "--id", "1"]
        with BrokerProcess(folder / "data", options=options, extra=extra) as broker:
            zookeeper.kill()
            begun = time.monotonic()
            while "is lost" not in broker.stderr():
                assert time.monotonic() - begun < LIMIT_SECONDS
                time.sleep(0.05)
            yield broker.address, zookeeper.address


async def test_a_topic_cannot_be_made_and_the_broker_says_why(site: tuple[str, str]) -> None:
    """ "Another broker is the controller" would send people to look for that one."""
    address, zookeeper = site
    async with Admin(address, QUICK) as admin:
        with pytest.raises(RequestRefused) as refused:
            await admin.create_topics([NewTopic("t")])

    assert sentence(refused.value) == (
        f"the cluster has no controller now ({address}: this broker is not the controller: it "
        f"has no session with ZooKeeper at {zookeeper}); try again, or see who is up with "
        "'ottla cluster describe', and read the brokers' logs"
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 't' does not exist and cannot be made: "),
        (NO_PRODUCER_ID, "no producer id is available: "),
    ],
)
async def test_a_producer_is_told_the_same(
    site: tuple[str, str], code: ErrorCode, words: str
) -> None:
    """Its own error codes say that the topic is unknown, and that a coordinator is loading."""
    address, zookeeper = site
    error = await explained(address, "t", RequestRefused(code), QUICK)

    assert str(error).startswith(f"{words}the cluster has no controller now (")
    assert f"ZooKeeper at {zookeeper}" in str(error)


async def test_the_description_of_the_cluster_says_that_it_is_old(site: tuple[str, str]) -> None:
    """Brokers name the last controller that they knew, and so did this command."""
    text = await ottla("cluster", "describe", "-b", site[0])
    document = await ottla("cluster", "describe", "-b", site[0], "--format", "json")

    assert WITHOUT_CONTROLLER in text.output.decode()
    assert json.loads(document.output)["controller"] is None


async def test_other_errors_stay_as_they_are(site: tuple[str, str]) -> None:
    """Other errors have their own messages."""
    error = RequestRefused(ErrorCode.MESSAGE_TOO_LARGE, topic="t")

    assert await explained(site[0], "t", error, QUICK) is error
