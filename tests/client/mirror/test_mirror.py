"""Mirrors between independent clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla import Admin, Cluster, Producer, TopicPartition
from ottla.client.cluster.config_requests import ResourceType
from ottla.client.mirror.errors import MirrorError
from ottla.client.mirror.mirror import Mirror
from ottla.client.mirror.notebook import read_notes
from ottla.client.mirror.settings import MirrorSource
from ottla.client.mirror.translation import Notes
from ottla.client.process.environment import real_environment
from ottla.protocol.configs import ConfigSource
from tests.client.mirror.clusters import copy_all, fill, read, settings, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def east() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def central() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


MODES = pytest.mark.parametrize("exactly_once", [False, True], ids=["group", "transactions"])


def source(cluster: Cluster, alias: str, *topics: str, rename: str = "{topic}") -> MirrorSource:
    return MirrorSource(
        alias=alias, bootstrap=cluster.bootstrap_servers, topics=topics, rename=rename
    )


@MODES
@pytest.mark.requirement("ARC-16", "OPS-02", "OPS-03")
async def test_several_clusters_feed_one_through_mirrors_only(
    west: Cluster, east: Cluster, central: Cluster, *, exactly_once: bool
) -> None:
    """Clusters in several places are joined by copying, never by stretching one over all."""
    topic = f"orders-{exactly_once}"
    west.create_topic(topic, 2)
    east.create_topic(topic, 3)
    await fill(west.bootstrap_servers, topic, [b"w%d" % n for n in range(300)])
    await fill(east.bootstrap_servers, topic, [b"e%d" % n for n in range(200)])
    sources = source(west, "west", topic), source(east, "east", topic)
    mirror = Mirror(
        settings(
            central.bootstrap_servers, *sources, exactly_once=exactly_once, name=f"m{exactly_once}"
        ),
        until_end=True,
    )

    await copy_all(mirror)

    copies = await read(central.bootstrap_servers, topic, 500)
    for cluster, count, letter in ((west, 300, b"w"), (east, 200, b"e")):
        originals = await read(cluster.bootstrap_servers, topic, count)
        for number, records in originals.items():
            theirs = [one for one in copies[number] if (one.value or b"").startswith(letter)]
            assert [(one.key, one.value, one.timestamp) for one in theirs] == [
                (one.key, one.value, one.timestamp) for one in records
            ]
    assert [one.records for one in mirror.progress()] == [300, 200]


@MODES
async def test_a_copy_is_the_record_with_all_it_has(
    west: Cluster, central: Cluster, *, exactly_once: bool
) -> None:
    """Keys decide on order, headers on routing, timestamps on retention and joins."""
    topic = f"whole-{exactly_once}"
    west.create_topic(topic, 2, configs={"cleanup.policy": "compact", "retention.ms": "777000"})
    async with Producer(west.bootstrap_servers, compression="gzip") as producer:
        headers = (("h", b"\x00"),)
        await producer.send(topic, b"v", b"k", partition=1, timestamp=1_234, headers=headers)
        await producer.send(topic, None, b"gone", partition=1, timestamp=5)
    one = source(west, "west", topic, rename="{source}.{topic}")
    await copy_all(
        Mirror(
            settings(central.bootstrap_servers, one, exactly_once=exactly_once, name=topic),
            until_end=True,
        )
    )

    copies = await read(central.bootstrap_servers, f"west.{topic}", 2)

    assert [(one.key, one.value, one.timestamp, list(one.headers)) for one in copies[1]] == [
        (b"k", b"v", 1_234, [("h", b"\x00")]),
        (b"gone", None, 5, []),
    ]
    async with Admin(central.bootstrap_servers) as admin:
        entries = await admin.describe_configs(ResourceType.TOPIC, f"west.{topic}")
        own = {entry.name: entry.value for entry in entries if entry.source is ConfigSource.TOPIC}
    assert (own["cleanup.policy"], own["retention.ms"]) == ("compact", "777000")


@MODES
@pytest.mark.requirement("OPS-04")
async def test_a_mirror_that_ended_goes_on_where_it_was(
    west: Cluster, central: Cluster, *, exactly_once: bool
) -> None:
    """Starting over would copy all records twice, and skipping would lose some."""
    topic = f"later-{exactly_once}"
    west.create_topic(topic, 2)
    how = settings(
        central.bootstrap_servers,
        source(west, "west", topic),
        exactly_once=exactly_once,
        name=topic,
    )
    for part in range(3):
        await fill(west.bootstrap_servers, topic, [b"%d-%d" % (part, n) for n in range(50)])
        await copy_all(Mirror(how, until_end=True))

    copies = await read(central.bootstrap_servers, topic, 150)

    assert sum(map(len, copies.values())) == 150


async def test_what_was_aborted_at_the_source_is_not_copied(
    west: Cluster, central: Cluster
) -> None:
    """The copy of an aborted record would be committed."""
    west.create_topic("txn")
    async with Producer(west.bootstrap_servers, transactional_id="t") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("txn", b"kept")
        await producer.begin_transaction()
        await producer.send("txn", b"dropped")
        await producer.flush()
        await producer.abort_transaction()
    await copy_all(
        Mirror(
            settings(central.bootstrap_servers, source(west, "west", "txn"), name="txn"),
            until_end=True,
        )
    )

    copies = await read(central.bootstrap_servers, "txn", 1)

    assert [one.value for one in copies[0]] == [b"kept"]


@MODES
async def test_new_topics_and_partitions_are_followed(
    west: Cluster, central: Cluster, *, exactly_once: bool
) -> None:
    """A mirror follows a growing topic without a restart."""
    name = f"grow-{exactly_once}"
    west.create_topic(f"{name}-a", 1)
    how = settings(
        central.bootstrap_servers,
        source(west, "west", f"^{name}-"),
        exactly_once=exactly_once,
        name=name,
    )
    mirror = Mirror(how)
    async with mirror, Admin(west.bootstrap_servers) as admin:
        await fill(west.bootstrap_servers, f"{name}-a", [b"first"], 0)
        await until(lambda: mirror.progress()[0].records == 1)
        await admin.create_partitions(f"{name}-a", 3)
        west.create_topic(f"{name}-b", 2)
        await fill(west.bootstrap_servers, f"{name}-a", [b"second"], 2)
        await fill(west.bootstrap_servers, f"{name}-b", [b"third"], 1)
        await until(lambda: mirror.progress()[0].records == 3)

    grown = await read(central.bootstrap_servers, f"{name}-a", 2)
    made = await read(central.bootstrap_servers, f"{name}-b", 1)
    assert {number: [one.value for one in records] for number, records in grown.items()} == {
        0: [b"first"],
        2: [b"second"],
    }
    assert list(made) == [1]


async def test_a_target_that_may_not_grow_is_told_in_a_sentence(
    west: Cluster, central: Cluster
) -> None:
    """Records of the missing partitions would have to go somewhere else, out of order."""
    west.create_topic("narrow", 3)
    central.create_topic("narrow", 2)
    how = settings(central.bootstrap_servers, source(west, "west", "narrow"), grow=False)

    with pytest.raises(MirrorError, match="has 2 partitions, and 3 are needed"):
        await copy_all(Mirror(how, until_end=True))


async def test_a_cluster_is_not_copied_into_itself(west: Cluster) -> None:
    """Every record would be read again as soon as it was written."""
    how = settings(west.bootstrap_servers, source(west, "west", "^x"))

    with pytest.raises(MirrorError, match="are the same cluster"):
        await copy_all(Mirror(how, until_end=True))


async def test_records_do_not_come_home_through_two_mirrors(
    west: Cluster, central: Cluster
) -> None:
    """Active in both places, under one name: marks prevent that records are copied endlessly."""
    for cluster in (west, central):
        cluster.create_topic("both", 1)
    await fill(west.bootstrap_servers, "both", [b"of west"])
    await fill(central.bootstrap_servers, "both", [b"of central"])
    there = settings(central.bootstrap_servers, source(west, "west", "both"), name="to")
    back = settings(west.bootstrap_servers, source(central, "central", "both"), name="fro")
    await copy_all(Mirror(there, until_end=True))
    with pytest.raises(MirrorError, match="copied back and forth endlessly"):
        await copy_all(Mirror(back, until_end=True))


async def test_marked_records_do_not_come_home(west: Cluster, central: Cluster) -> None:
    """With marks two mirrors may face each other."""
    for cluster in (west, central):
        cluster.create_topic("marked", 1)
    await fill(west.bootstrap_servers, "marked", [b"of west"])
    await fill(central.bootstrap_servers, "marked", [b"of central"])
    there = settings(
        central.bootstrap_servers, source(west, "west", "marked"), name="mto", mark=True
    )
    back = settings(
        west.bootstrap_servers, source(central, "central", "marked"), name="mfro", mark=True
    )
    for _ in range(2):
        await copy_all(Mirror(there, until_end=True))
        await copy_all(Mirror(back, until_end=True))

    for cluster in (west, central):
        copies = await read(cluster.bootstrap_servers, "marked", 2)
        assert sorted(one.value or b"" for one in copies[0]) == [b"of central", b"of west"]


@MODES
async def test_offsets_are_found_again_on_the_target(
    west: Cluster, east: Cluster, central: Cluster, *, exactly_once: bool
) -> None:
    """A group that moves to the other cluster continues with the next record."""
    topic = f"found-{exactly_once}"
    for cluster in (west, east):
        cluster.create_topic(topic, 1)
    sources = source(west, "west", topic), source(east, "east", topic)
    how = settings(central.bootstrap_servers, *sources, exactly_once=exactly_once, name=topic)
    for part in range(3):
        await fill(east.bootstrap_servers, topic, [b"e%d-%d" % (part, n) for n in range(7)])
        await copy_all(Mirror(how, until_end=True))
        await fill(west.bootstrap_servers, topic, [b"w%d-%d" % (part, n) for n in range(10)])
        await copy_all(Mirror(how, until_end=True))
    copies = (await read(central.bootstrap_servers, topic, 51))[0]

    found = await read_notes(central.bootstrap_servers, real_environment())
    notes = Notes(note for note in found if note.source == "west")
    exact = 0
    for original in (await read(west.bootstrap_servers, topic, 30))[0]:
        place = notes.find(TopicPartition(topic, 0), original.offset)
        assert place is not None
        (copy,) = [one for one in copies if one.value == original.value]
        assert place[1] <= copy.offset
        exact += place[1] == copy.offset
    assert exact == 30


async def test_a_mirror_waits_for_a_cluster_that_is_away(west: Cluster) -> None:
    """A restart of the remote cluster must not require a restart of the mirror."""
    west.create_topic("patient", 1)
    await fill(west.bootstrap_servers, "patient", [b"one"])
    with Cluster() as target:
        mirror = Mirror(
            settings(target.bootstrap_servers, source(west, "west", "patient"), name="p")
        )
        target.faults.kill(1)
        async with mirror:
            await until(lambda: mirror.progress()[0].failures > 0)
            target.faults.restart(1)
            await until(lambda: mirror.progress()[0].records == 1)

        assert len((await read(target.bootstrap_servers, "patient", 1))[0]) == 1
