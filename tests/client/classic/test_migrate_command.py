"""``ottla groups migrate`` between a real ZooKeeper and the brokers on it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import ottla
from ottla.client.classic.migration import StoredOffsets, compared
from ottla.client.records.committed import Committed
from ottla.protocol.ids import TopicPartition
from tests.client.classic.site import StreamReader, classic_site
from tests.client.cli.command import Ended
from tests.client.cli.command import ottla as command

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.classic.site import ClassicSite


def test_the_newest_offset_counts() -> None:
    """Each partition that has an offset anywhere is compared."""
    first, second, third = (TopicPartition("t", number) for number in range(3))

    found = compared({first: 5, second: 7}, {second: 9, third: 1})

    assert found == [
        StoredOffsets(first, 5, None),
        StoredOffsets(second, 7, 9),
        StoredOffsets(third, None, 1),
    ]
    assert [one.newest for one in found] == [5, 9, 1]


async def migrate(site: ClassicSite, *arguments: str, group: str = "g") -> Ended:
    """Run the command."""
    return await command(
        "groups", "migrate", group, "--zookeeper", site.brokers.place, "-b", site.bootstrap,
        *arguments,
    )  # fmt: skip


async def test_offsets_are_copied_there_and_back_and_checked(tmp_path: Path) -> None:
    """A check changes nothing; an older offset never replaces a newer one."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {0: [1], 1: [1]})
        tree = site.brokers.tree
        tree.create("/consumers/g/offsets/t/0", b"5", makepath=True)
        # Written by a consumer of 0.7: the second partition of broker 1.
        tree.create("/consumers/g/offsets/t/1-1", b"7")
        nothing = await migrate(site, "--to", "kafka", "--check")
        async with ottla.Admin(site.bootstrap) as admin:
            before = await admin.groups.offsets("g")
            moved = await migrate(site, "--to", "kafka")
            copied = await admin.groups.offsets("g")
            await admin.groups.commit("g", {TopicPartition("t", 0): Committed(9)})
        back = await migrate(site, "--to", "zookeeper", "--format", "json")
        checked = await migrate(site, "--to", "zookeeper", "--check")
        at_zero = tree.get("/consumers/g/offsets/t/0")[0]
        unknown = await migrate(site, "--to", "kafka", group="none")

    rows = [line.split() for line in moved.output.decode().splitlines()]
    values: list[dict[str, Any]] = json.loads(back.output)
    assert (nothing.status, before) == (1, {})
    assert (moved.status, moved.errors) == (0, "")
    assert rows == [
        ["TOPIC", "PARTITION", "ZOOKEEPER", "KAFKA"],
        ["t", "0", "5", "5"],
        ["t", "1", "7", "7"],
    ]
    assert {where.partition: one.offset for where, one in copied.items()} == {0: 5, 1: 7}
    assert [(one["zookeeper"], one["kafka"], one["same"]) for one in values] == [
        (9, 9, True),
        (7, 7, True),
    ]
    assert (checked.status, at_zero) == (0, b"9")
    assert unknown.status == 1
    assert "no offsets" in unknown.errors


async def test_a_group_with_members_is_refused(tmp_path: Path) -> None:
    """They would commit where the tool does not look; the sentence says what to do."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {0: [1]})
        await site.send("t", [b"x"])
        connector = site.connector(consumer_id="a-member")
        streams = await asyncio.to_thread(connector.create_message_streams, {"t": 1})
        reader = StreamReader(streams["t"][0])
        await site.until(lambda: len(reader.messages) == 1)
        refused = await migrate(site, "--to", "kafka")
        wrong = await command(
            "groups", "migrate", "g", "--to", "kafka", "--zookeeper", "a b", "-b", site.bootstrap
        )

    assert refused.status == 1
    assert "a-member" in refused.errors
    assert "dual.commit.enabled" in refused.errors
    assert wrong.status == 1
    assert "not a host" in wrong.errors
