"""Mirroring of topics that are deleted and recreated under the same name."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, RequestRefused
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.mirror.link import may_pass
from ottla.client.mirror.mirror import Mirror
from ottla.client.mirror.settings import MirrorSettings, MirrorSource
from ottla.client.mirror.topics import Copied, certain, id_text
from ottla.protocol.errors import ErrorCode
from tests.client.mirror.clusters import copy_all, fill, read, settings, until

if TYPE_CHECKING:
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
        found: set[bytes | None] = set()
        while not set(YOUNG) <= found:
            copies = await read(central.bootstrap_servers, topic, len(OLD))
            found = {record.value for record in copies[0]}
    assert found == {*OLD, *YOUNG}


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
