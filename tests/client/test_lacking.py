"""Features that Redpanda lacks: the client names the missing API and sends no such request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID, TopicPartition
from ottla.wire.errors import UnsupportedByBroker
from tests.client.cli.command import in_process
from tests.client.support.sites import Apaches, broker_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

PROFILE = "redpanda-24.3.2"


@pytest.fixture(scope="module")
def site(apaches: Apaches) -> Iterator[str]:
    """The relay of a broker."""
    with broker_of(PROFILE, apaches) as address:
        yield address


@pytest.fixture
async def admin(site: str) -> AsyncIterator[ottla.Admin]:
    async with ottla.Admin(site) as one:
        yield one


async def test_the_newer_protocol_of_groups_is_named_with_the_one_that_works(
    site: str, admin: ottla.Admin
) -> None:
    """No broker has refused anything: it is no RequestRefused."""
    await admin.create_topic(ottla.NewTopic("groups", 1))
    async with ottla.Consumer(site, group_id="newer", group_protocol="consumer") as member:
        await member.subscribe(["groups"])
        with pytest.raises(UnsupportedByBroker) as raised:
            await member.poll(10_000)

    assert "does not offer ConsumerGroupHeartbeat" in str(raised.value)
    assert "group_protocol='classic' is served by all brokers" in str(raised.value)
    assert (raised.value.code, raised.value.retriable) == (ErrorCode.NONE, False)


def test_a_command_says_it_in_one_sentence(
    site: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Instead of waiting for an assignment that never comes."""
    ottla_ = in_process(capfdbinary)
    ottla_("topics", "create", "told", "-p", "1", "-b", site)
    ended = ottla_("consume", "told", "-g", "told", "--group-protocol", "consumer", "-b", site)

    assert (ended.status, ended.output) == (1, b"")
    assert ended.errors.count("\n") == 1
    assert "ConsumerGroupHeartbeat" in ended.errors


async def test_topics_have_no_ids_and_are_read_by_name(site: str, admin: ottla.Admin) -> None:
    """Metadata 8 and Fetch 11; a topic that is made again is read all the same."""
    where = TopicPartition("named", 0)
    found = []
    async with (
        ottla.Producer(site, linger_ms=0) as producer,
        ottla.Consumer(site, offset_reset="earliest") as consumer,
    ):
        for value in (b"first", b"second"):
            view = await admin.create_topic(ottla.NewTopic("named", 1))
            assert view.topic_id == ZERO_UUID
            await (await producer.send("named", value))
            consumer.assign([where])
            found += [record.value for record in await consumer.poll(20_000)]
            consumer.assign([])
            assert (await admin.delete_topics(["named"]))["named"] is None

    assert found == [b"first", b"second"]


async def test_what_administrators_miss_is_named(admin: ottla.Admin) -> None:
    """Each by the request that there is not."""
    with pytest.raises(UnsupportedByBroker, match="does not offer DescribeTopicPartitions"):
        await admin.describe_partitions()
    with pytest.raises(UnsupportedByBroker, match="does not offer DescribeCluster"):
        await admin.brokers.registered()
    with pytest.raises(UnsupportedByBroker, match="does not offer ElectLeaders"):
        await admin.placements.elect(ottla.ElectionType.PREFERRED)
    with pytest.raises(UnsupportedByBroker, match="does not offer UpdateFeatures"):
        await admin.features.update_features({"transaction.version": 2})
    with pytest.raises(UnsupportedByBroker, match="cannot choose transactions by a pattern"):
        await admin.transactions.list_transactions(pattern="a.*")
    with pytest.raises(UnsupportedByBroker, match="cannot choose transactions by how long"):
        await admin.transactions.list_transactions(longer_than_ms=1)
    assert await admin.features.describe_features() == []


async def test_places_that_are_no_times_are_not_asked_for(site: str, admin: ottla.Admin) -> None:
    """Redpanda would look for the first record after such a time, and find it (KIP-734)."""
    await admin.create_topic(ottla.NewTopic("times", 1))
    async with ottla.Producer(site) as producer, ottla.Consumer(site) as consumer:
        await (await producer.send("times", b"x"))
        for place in (-3, -4, -5):
            with pytest.raises(UnsupportedByBroker, match=f"does not know what {place} stands for"):
                await consumer.offsets_at({TopicPartition("times", 0): place})
