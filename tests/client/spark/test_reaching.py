"""Drivers and tasks that begin while no broker is there."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructType

import ottla
from ottla.client.spark.given import Given
from ottla.client.spark.reaching import TIMEOUT_MS, NotReached, Reach, reached
from ottla.client.spark.reader import BatchReader
from ottla.client.spark.sink_options import sink_options
from ottla.client.spark.writer import columns_of, write_plainly
from ottla.protocol.ports import Address
from ottla.wire.errors import AuthenticationFailed, BrokerUnreachable
from tests.client.spark.support.driven import Query
from tests.client.spark.support.topics import fill, given
from tests.support.ports import free_row

PATIENCE_S = 60.0
ENDS = r"no broker has answered at 127\.0\.0\.1:\d+ within 300 ms, which is what the option "
SCHEMA = columns_of(StructType().add("value", BinaryType()))


class Away:
    """A cluster that comes back after some attempts to reach it."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    async def reach(self) -> str:
        self.failures -= 1
        if self.failures >= 0:
            raise BrokerUnreachable(Address("127.0.0.1", 9092), "refused")
        return "there"


async def test_an_attempt_is_made_again_until_it_succeeds_or_the_time_is_over() -> None:
    """The first ones soon after each other: most brokers are there again at once."""
    reach = Reach.of(Given({"bootstrapServers": "127.0.0.1:9092"}))
    assert reach == ("127.0.0.1:9092", TIMEOUT_MS)
    assert await reached(Away(2).reach, reach) == "there"

    none = Away(9)
    with pytest.raises(NotReached, match=r"within 0 ms, .* cannot reach a broker"):
        await reached(none.reach, reach._replace(timeout_ms=0))
    assert none.failures == 8


def test_without_any_broker_one_sentence_names_the_addresses_and_the_option() -> None:
    """An address that is wrong is noticed, only later."""
    options = {"firstContactTimeoutMs": "300", "subscribe": "t"}
    broker = f"127.0.0.1:{free_row(1)}"

    for work in (
        lambda: BatchReader(given(broker, options)).partitions(),
        lambda: Query(broker, **options).batch(),
        lambda: write_plainly(
            sink_options(given(broker, {**options, "topic": "t"}), SCHEMA, exactly_once=False),
            iter([pa.record_batch({"value": pa.array([b"a"])})]),
        ),
    ):
        with pytest.raises(NotReached, match=ENDS + "firstContactTimeoutMs allows"):
            work()


def test_a_query_waits_for_brokers_that_are_being_restarted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The same restart starts brokers and driver, so the driver must wait for the brokers."""
    with ottla.Cluster() as cluster:
        cluster.create_topic("t")
        broker = cluster.bootstrap_servers
        fill(broker, "t", 3)
        cluster.faults.kill(1)

        def restart() -> None:
            deadline_s = time.monotonic() + PATIENCE_S
            while "trying again for" not in caplog.text and time.monotonic() < deadline_s:
                time.sleep(0.01)
            cluster.faults.restart(1)

        thread = threading.Thread(target=restart)
        thread.start()
        once = {"fetchOffset.numRetries": 1}
        query = Query(broker, subscribe="t", startingOffsets="earliest", **once)
        assert query.batch() == {0: [0, 1, 2]}
        thread.join()


async def test_a_refused_login_is_not_tried_again() -> None:
    """The sentence of a wrong password must not come a minute later."""
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise AuthenticationFailed(Address("broker", 9092), "the password is wrong")

    with pytest.raises(AuthenticationFailed, match="the password is wrong"):
        await reached(attempt, Reach("broker:9092", 60_000))
    assert attempts == 1
