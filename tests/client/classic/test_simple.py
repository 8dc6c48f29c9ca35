"""The low-level consumer against a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

import ottla
import ottla.sync
from ottla.classic import (
    EARLIEST_TIME,
    LATEST_TIME,
    FetchRequest,
    MultiFetchResponse,
    OutOfRangeException,
    SimpleConsumer,
)
from ottla.client.classic.message_sets import ClassicFetch, rounds
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientClosed, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterator


class Place(NamedTuple):
    """One broker with a topic of two partitions: ten messages, a second apart, in the first."""

    host: str
    port: int
    bootstrap: str

    def consumer(self) -> SimpleConsumer:
        """A new one."""
        return SimpleConsumer(self.host, self.port)


FIRST_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Shared: nothing here changes it."""
    with ottla.Cluster() as cluster:
        cluster.create_topic("t", partitions=2)
        with ottla.sync.Producer(cluster.bootstrap_servers) as producer:
            for number in range(10):
                producer.send(
                    "t", b"%d" % number, b"k", partition=0, timestamp=FIRST_MS + 1_000 * number
                )
                producer.flush()
            producer.send("t", None, b"gone", partition=1)
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        yield Place(host, int(port), cluster.bootstrap_servers)


@pytest.mark.requirement("CON-01")
def test_a_fetch_returns_the_messages_from_an_offset_on(place: Place) -> None:
    """Also from the middle of a batch, and none at the end."""
    with place.consumer() as consumer:
        found = consumer.fetch(FetchRequest("t", 0, 4, 1_000_000))
        at_end = consumer.fetch(FetchRequest("t", 0, 10))
        tombstone = next(iter(consumer.fetch(FetchRequest("t", 1, 0))))

    assert [(one.offset, one.message) for one in found] == [(n, b"%d" % n) for n in range(4, 10)]
    assert len(found) == 6
    assert found.high_watermark == 10
    assert found.size_in_bytes > 0
    assert next(iter(found)).next_offset == 5
    assert next(iter(found)).key == b"k"
    assert (len(at_end), list(at_end)) == (0, [])
    assert (tombstone.key, tombstone.message) == (b"gone", None)


@pytest.mark.requirement("CON-02")
def test_several_fetches_are_answered_in_order(place: Place) -> None:
    """Also when a partition is asked for twice, and when one of them fails."""
    with place.consumer() as consumer:
        found = consumer.multifetch(
            [
                FetchRequest("t", 1, 0),
                FetchRequest("t", 0, 8),
                FetchRequest("none", 0, 0),
                FetchRequest("t", 0, 2, 100),
            ]
        )

    assert isinstance(found, MultiFetchResponse)
    assert [one.error is None for one in found] == [True, True, False, True]
    assert [one.message for one in found[1]] == [b"8", b"9"]
    assert next(iter(found[0])).key == b"gone"
    assert next(iter(found[3])).offset == 2
    with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        iter(found[2])


@pytest.mark.requirement("CON-03", "CON-04")
def test_offsets_before_a_time_come_newest_first(place: Place) -> None:
    """The two special times are the ends of the log."""
    with place.consumer() as consumer:
        middle = consumer.get_offsets_before("t", 0, FIRST_MS + 3_500, 10)
        newest = consumer.getOffsetsBefore("t", 0, FIRST_MS + 3_500, 1)
        future = consumer.get_offsets_before("t", 0, FIRST_MS + 10**9, 2)
        latest = consumer.get_offsets_before("t", 0, LATEST_TIME, 1)
        earliest = consumer.get_offsets_before("t", 0, EARLIEST_TIME, 5)
        messages = [
            next((m.message for m in consumer.fetch(FetchRequest("t", 0, offset))), None)
            for offset in middle
        ]
        with pytest.raises(ValueError, match="at least 1"):
            consumer.get_offsets_before("t", 0, LATEST_TIME, 0)
        with pytest.raises(RequestRefused):
            consumer.get_offsets_before("t", 7, LATEST_TIME)

    assert middle == [4, 0]
    assert messages == [b"4", b"0"]
    assert newest == [4]
    assert future == [10, 0]
    assert latest == [10]
    assert earliest == [0]


@pytest.mark.requirement("CON-05")
def test_another_consumer_goes_on_from_any_offset(place: Place) -> None:
    """The broker remembers nothing of the first one, nor of a broken connection."""
    with place.consumer() as first:
        head = list(first.fetch(FetchRequest("t", 0, 0)))
        connection = first._connection
        assert connection is not None
        first._call(connection.close)
        again = list(first.fetch(FetchRequest("t", 0, 3)))
    with place.consumer() as second:
        rest = list(second.fetch(FetchRequest("t", 0, head[4].next_offset)))

    assert [one.offset for one in rest] == list(range(5, 10))
    assert [one.offset for one in again] == list(range(3, 10))
    with pytest.raises(ClientClosed):
        first.fetch(FetchRequest("t", 0, 0))


def test_an_offset_outside_of_the_log_has_an_error_of_its_own(place: Place) -> None:
    """The caller has to choose another offset; other errors are the broker's."""
    with place.consumer() as consumer:
        with pytest.raises(OutOfRangeException) as outside:
            consumer.fetch(FetchRequest("t", 0, 11))
        with pytest.raises(RequestRefused) as unknown:
            consumer.fetch(FetchRequest("none", 0, 0))

    assert outside.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not isinstance(unknown.value, OutOfRangeException)


def test_requests_for_one_partition_go_in_different_rounds() -> None:
    """A Fetch request names a partition once."""
    asked = [ClassicFetch("t", number, 0) for number in (0, 1, 0, 0, 1)]

    assert rounds(asked) == [[0, 1], [2, 4], [3]]
