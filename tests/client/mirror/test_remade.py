"""Mirroring of topics that are deleted and recreated under the same name."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, Consumer, Isolation, RequestRefused
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.mirror.link import may_pass
from ottla.client.mirror.mirror import Mirror
from ottla.client.mirror.settings import MirrorSettings, MirrorSource
from ottla.client.mirror.topics import Copied, certain, id_text
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.client.mirror.clusters import PATIENCE_S, copy_all, fill, read, settings, until

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla import Cluster
    from tests.client.support.toy_broker import ToyCluster

pytestmark = pytest.mark.timeout(600)

MODES = pytest.mark.parametrize("exactly_once", [False, True], ids=["group", "transactions"])
OLD = [b"old %d" % number for number in range(5)]
YOUNG = [b"young %d" % number for number in range(20)]


async def remake(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.delete_topics([topic])
        while topic in {view.name for view in await admin.list_topics()}:
            pass
        await admin.create_topic(NewTopic(topic, 1))


async def values_with(cluster: Cluster, topic: str, wanted: Collection[bytes]) -> set[bytes | None]:
    """All values of a topic with one partition, as soon as the wanted ones are among them."""
    found: set[bytes | None] = set()
    try:
        async with (
            asyncio.timeout(PATIENCE_S),
            Consumer(cluster.bootstrap_servers, isolation=Isolation.READ_COMMITTED) as consumer,
        ):
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek_to_beginning()
            while not found.issuperset(wanted):
                found.update(record.value for record in await consumer.poll(100))
    except TimeoutError:
        missing = sorted(set(wanted) - found)
        pytest.fail(f"after {PATIENCE_S:.0f} s {topic} lacks {missing}, it has {len(found)} values")
    return found


async def chosen_for(
    west: Cluster, central: Cluster, topic: str, *, exactly_once: bool, **more: float
) -> MirrorSettings:
    """A mirror of the topic, which has the old records."""
    west.create_topic(topic, 1)
    await fill(west.bootstrap_servers, topic, OLD)
    one = MirrorSource(alias="west", bootstrap=west.bootstrap_servers, topics=(topic,))
    where = central.bootstrap_servers
    return settings(where, one, exactly_once=exactly_once, name=topic, **more)


@MODES
async def test_a_topic_created_again_while_no_mirror_ran_is_copied_from_its_beginning(
    west: Cluster, central: Cluster, *, exactly_once: bool
) -> None:
    """The new topic is longer than the mirror's old position; earlier records would be missed."""
    topic = f"remade-{exactly_once}"
    bootstrap = west.bootstrap_servers
    chosen = await chosen_for(west, central, topic, exactly_once=exactly_once)
    await copy_all(Mirror(chosen, until_end=True))
    await remake(bootstrap, topic)
    await fill(bootstrap, topic, YOUNG)

    await copy_all(Mirror(chosen, until_end=True))

    copies = await read(central.bootstrap_servers, topic, len(OLD) + len(YOUNG))
    assert [record.value for record in copies[0]] == OLD + YOUNG


@MODES
async def test_a_topic_that_is_made_anew_while_it_is_copied_is_copied_from_its_beginning(
    west: Cluster, central: Cluster, *, exactly_once: bool
) -> None:
    """Some of it may be copied twice; nothing is left out."""
    topic = f"anew-{exactly_once}"
    bootstrap = west.bootstrap_servers
    chosen = await chosen_for(west, central, topic, exactly_once=exactly_once)
    async with Mirror(chosen) as mirror:
        await until(lambda: mirror.progress()[0].records == len(OLD))
        await remake(bootstrap, topic)
        await fill(bootstrap, topic, YOUNG)
        found = await values_with(central, topic, YOUNG)
    assert found == {*OLD, *YOUNG}


@MODES
async def test_a_position_of_a_deleted_topic_is_no_position_in_the_new_one(
    west: Cluster, central: Cluster, *, exactly_once: bool
) -> None:
    """A mirror may commit the position of what it has copied just after the topic was replaced; the
    source takes that for a position in the new topic, whose first records would be left out."""
    topic = f"late-commit-{exactly_once}"
    where = TopicPartition(topic, 0)
    bootstrap = west.bootstrap_servers
    chosen = await chosen_for(west, central, topic, exactly_once=False)
    await copy_all(Mirror(chosen, until_end=True))
    group = chosen.group_of(chosen.sources[0])
    async with Admin(bootstrap) as admin:
        late = (await admin.groups.offsets(group))[where]
        await remake(bootstrap, topic)
        await fill(bootstrap, topic, YOUNG)
        await admin.groups.commit(group, {where: late})
        assert (await admin.groups.offsets(group))[where].offset == len(OLD)

    # A mirror that has no position on the target yet begins at the source's, also in transactions.
    await copy_all(Mirror(replace(chosen, exactly_once=exactly_once), until_end=True))

    copies = await read(central.bootstrap_servers, topic, len(OLD) + len(YOUNG))
    assert [record.value for record in copies[0]] == OLD + YOUNG


async def test_a_topic_made_anew_with_as_many_records_is_copied_once_in_transactions(
    west: Cluster, central: Cluster
) -> None:
    """The position is the same number; only the topic id shows that the topic is another one. Using
    the old id would copy everything once more."""
    topic = "as-many"
    bootstrap = west.bootstrap_servers
    chosen = await chosen_for(west, central, topic, exactly_once=True, refresh_ms=5_000.0)
    young = [b"young %d" % number for number in range(len(OLD))]
    async with Mirror(chosen) as mirror:
        await until(lambda: mirror.progress()[0].records == len(OLD))
        await remake(bootstrap, topic)
        await fill(bootstrap, topic, young)
        await until(lambda: mirror.progress()[0].records == len(OLD) + len(young))
    await copy_all(Mirror(chosen, until_end=True))

    copies = await read(central.bootstrap_servers, topic, len(OLD) + len(young))
    assert [record.value for record in copies[0]] == OLD + young


async def test_a_source_broker_that_is_behind_is_outvoted_or_waited_for(toy: ToyCluster) -> None:
    """An old topic id would copy all records twice, or mix two topics."""
    toy.start(3)
    young = id_text(toy.add_topic("t").topic_id)
    toy.behind[1] = copy.deepcopy(toy.topics)
    toy.behind[1]["t"].topic_id = b"o" * 16
    told = Copied({"t": "t"}, {"t": 1}, {"t": id_text(b"o" * 16)})
    async with Admin(toy.bootstrap) as source:
        found = await certain(source, told)
    toy.nodes.pop(3).close()
    async with Admin(toy.bootstrap) as source:
        with pytest.raises(RequestRefused) as refused:
            await certain(source, told)

    assert found.ids == {"t": young}
    assert (refused.value.code, refused.value.topic) == (ErrorCode.INCONSISTENT_TOPIC_ID, "t")
    assert may_pass(refused.value)
