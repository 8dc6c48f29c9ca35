"""A partition in two data directories: the right copy is served and none is thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.records.builder import BatchOptions
from tests.broker.log.broker_disk import TOPIC_ID, BrokerDisk, partition
from tests.broker.log.log_under_test import batch_at

if TYPE_CHECKING:
    from ottla.broker.log.directories.directories import LogDirectories

OTHER_ID = bytes(range(16, 32))
PARTITION = partition(0)


async def fill(
    broker: BrokerDisk,
    path: str,
    *,
    topic_id: bytes = TOPIC_ID,
    records: int,
    leader_epoch: int,
) -> None:
    """A life of the broker in which only that directory was there."""
    both, broker.paths = broker.paths, [path]
    logs = await broker.start()
    log = await logs.create(PARTITION, topic_id, is_new=True)
    options = BatchOptions(leader_epoch=leader_epoch)
    batch = batch_at(0, records, options=options)
    log.append([batch], 0)
    log.observer.observe(batch)
    assert await logs.close(1)
    broker.paths = both


async def two_copies(first: tuple[int, int], second: tuple[int, int]) -> BrokerDisk:
    """(records, leader epoch) of the same topic in each of the two directories."""
    broker = BrokerDisk(2)
    for path, (records, leader_epoch) in zip(broker.paths, (first, second), strict=True):
        await fill(broker, path, records=records, leader_epoch=leader_epoch)
    return broker


def served(logs: LogDirectories) -> tuple[str, int]:
    """Directory and end of the copy that counts."""
    log = logs.get(PARTITION)
    assert log is not None
    return log.directory, log.log_end_offset


def kept(broker: BrokerDisk) -> list[str]:
    """The data directories with a copy that was kept under another name."""
    return [
        path
        for path in broker.paths
        for name in broker.entries(path)
        if name.startswith("orders-0.") and name.endswith("-stray")
    ]


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ((9, 0), (5, 3), "/d2"),
        ((5, 3), (9, 0), "/d1"),
        ((5, 3), (6, 3), "/d2"),
        ((6, 3), (5, 3), "/d1"),
    ],
)
async def test_the_copy_that_was_led_last_is_served(
    first: tuple[int, int], second: tuple[int, int], chosen: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that was dead for a week comes back with a longer log of a week ago: taking what is
    found first would throw away all that was acknowledged since."""
    broker = await two_copies(first, second)
    logs = await broker.start()

    records = dict(zip(broker.paths, (first[0], second[0]), strict=True))
    assert served(logs) == (f"{chosen}/orders-0", records[chosen])
    assert kept(broker) == [path for path in broker.paths if path != chosen]
    assert sum("more than one data directory" in one for one in caplog.messages) == 1
    assert await logs.close(2)
    assert served(await broker.start())[0] == f"{chosen}/orders-0"


@pytest.mark.parametrize(("topic_id", "chosen"), [(TOPIC_ID, "/d1"), (OTHER_ID, "/d2")])
async def test_of_two_topics_of_one_name_the_controllers_is_served(
    topic_id: bytes, chosen: str
) -> None:
    """The topic was deleted and made again while the disk was away: epochs of two topics cannot
    be compared, so nothing is decided before the controller has said which one there is."""
    broker = BrokerDisk(2)
    await fill(broker, "/d1", topic_id=TOPIC_ID, records=2, leader_epoch=8)
    await fill(broker, "/d2", topic_id=OTHER_ID, records=7, leader_epoch=0)
    logs = await broker.start()
    before = kept(broker)
    await logs.choose(PARTITION, topic_id)

    assert before == []
    assert served(logs)[0] == f"{chosen}/orders-0"
    assert kept(broker) == [path for path in broker.paths if path != chosen]
    found = await logs.create(PARTITION, topic_id, is_new=False)
    assert found.topic_id == topic_id
    assert await logs.close(2)


async def test_an_empty_directory_of_the_same_name_is_no_rival() -> None:
    """Left by a crash while the partition was made, so without the id of any topic."""
    broker = BrokerDisk(2)
    await fill(broker, "/d2", records=3, leader_epoch=0)
    broker.disk.make_directory("/d1/orders-0")
    logs = await broker.start()
    before = served(logs)
    await logs.choose(PARTITION, TOPIC_ID)

    assert before == served(logs) == ("/d2/orders-0", 3)
    assert kept(broker) == ["/d1"]


async def test_without_the_controllers_word_both_stay_as_they_are() -> None:
    """A broker that is stopped before has decided nothing; the next start finds the same."""
    broker = BrokerDisk(2)
    await fill(broker, "/d1", topic_id=TOPIC_ID, records=2, leader_epoch=8)
    await fill(broker, "/d2", topic_id=OTHER_ID, records=7, leader_epoch=0)
    for _ in range(2):
        logs = await broker.start()
        await logs.close(1)
    logs = await broker.start()
    await logs.choose(PARTITION, OTHER_ID)

    assert served(logs) == ("/d2/orders-0", 7)


async def test_a_damaged_copy_that_is_newer_is_not_replaced_by_an_old_one() -> None:
    """The old one would be served as if it were all there was."""
    broker = await two_copies((4, 5), (3, 0))
    content = broker.disk.files.file("/d1/orders-0/00000000000000000000.log").data
    content[100] ^= 1
    broker.disk.files.file("/d1/orders-0/00000000000000000000.log").data.extend(
        bytes(batch_at(4, 1, options=BatchOptions(leader_epoch=5)).buffer)
    )
    logs = await broker.start()

    assert list(logs.damaged) == [PARTITION]
    assert logs.get(PARTITION) is None
    assert kept(broker) == ["/d2"]


async def test_the_deletion_of_a_topic_leaves_no_second_copy_in_place() -> None:
    """At the next start it would be there again."""
    broker = BrokerDisk(2)
    await fill(broker, "/d1", topic_id=TOPIC_ID, records=2, leader_epoch=8)
    await fill(broker, "/d2", topic_id=OTHER_ID, records=7, leader_epoch=0)
    logs = await broker.start()
    await logs.delete(PARTITION)

    assert not [n for path in broker.paths for n in broker.entries(path) if n == "orders-0"]
    assert kept(broker) == ["/d2"]
