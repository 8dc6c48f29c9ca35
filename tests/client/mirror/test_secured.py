"""A mirror between two closed clusters: over TLS, as users that may do just what a mirror does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import sync
from ottla.client.mirror.mirror import Mirror
from ottla.client.mirror.settings import MirrorSettings, MirrorSource

if TYPE_CHECKING:
    from collections.abc import Iterator

READING = [
    ottla.Acl("reader", "read,describe,describe-configs", topic="orders"),
    # A source that is the target of another mirror has its positions there.
    ottla.Acl("reader", "read", topic="ottla.mirror.offsets"),
    # The processes of a mirror share the partitions of a source as members of a group there.
    ottla.Acl("reader", "read", group="mirror.west"),
]
OPERATIONS = "read,write,create,alter,describe-configs,alter-configs"
WRITING = [
    ottla.Acl("writer", OPERATIONS, topic="west.", prefixed=True),
    ottla.Acl("writer", OPERATIONS, topic="ottla.mirror.offsets"),
    ottla.Acl("writer", "read", group="mirror.west"),
    ottla.Acl("writer", "write", transactional_id="ottla-mirror-", prefixed=True),
]
COUNT = 20


@pytest.fixture
def west() -> Iterator[ottla.Cluster]:
    """Where the records are."""
    users = {"reader": "west-password"}
    with ottla.Cluster(security="sasl_ssl", users=users, acls=READING) as made:
        yield made


@pytest.fixture
def central() -> Iterator[ottla.Cluster]:
    """Where they go."""
    users = {"writer": "central-password"}
    with ottla.Cluster(security="sasl_ssl", users=users, acls=WRITING) as made:
        yield made


def _login(cluster: ottla.Cluster, user: str) -> tuple[str, dict[str, str]]:
    settings = {name: str(value) for name, value in cluster.client_settings(user=user).items()}
    return settings.pop("bootstrap.servers"), settings


def test_a_mirror_copies_between_closed_clusters(
    west: ottla.Cluster, central: ottla.Cluster
) -> None:
    """Each side has an authority, a user and a password of its own; the copy is exact."""
    west.create_topic("orders", partitions=2)
    servers, security = _login(west, "admin")
    with sync.Producer(servers, security=security) as producer:
        for number in range(COUNT):
            producer.send("orders", b"%d" % number, partition=number % 2)
    source, reader = _login(west, "reader")
    target, writer = _login(central, "writer")
    settings = MirrorSettings(
        target=target,
        sources=(
            MirrorSource(
                alias="west",
                bootstrap=source,
                topics=("orders",),
                rename="{source}.{topic}",
                properties=reader,
            ),
        ),
        exactly_once=True,
        properties=writer,
    )
    asyncio.run(_copy(settings))

    servers, security = _login(central, "admin")
    found: list[bytes] = []
    with sync.Consumer(servers, security=security, offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_of("west.orders"))
        while len(found) < COUNT:
            found += [record.value or b"" for record in consumer.poll()]
    assert sorted(found, key=int) == [b"%d" % number for number in range(COUNT)]


async def _copy(settings: MirrorSettings) -> None:
    async with Mirror(settings, until_end=True) as mirror:
        await mirror.wait()
