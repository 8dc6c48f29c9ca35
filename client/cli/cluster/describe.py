"""``ottla topics describe``: partitions with leaders, replicas and offsets, and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.output import json_document, table, write
from ottla.client.cluster.config_requests import ResourceType
from ottla.client.fetching.offsets import OffsetAt
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.protocol.configs import ConfigSource
from ottla.protocol.ids import TopicPartition, uuid_to_text
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from ottla.client.admin import Admin
    from ottla.client.cluster.config_requests import ConfigEntry
    from ottla.client.cluster.metadata import TopicView

HEADINGS = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END")


async def describe(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write the description of each topic."""
    documents = []
    texts = []
    for name in dict.fromkeys(arguments.topics):
        view = await admin.describe_topic(name)
        starts = await offsets(admin, view, EARLIEST_TIMESTAMP)
        ends = await offsets(admin, view, LATEST_TIMESTAMP)
        settings = await admin.describe_configs(ResourceType.TOPIC, name)
        if arguments.format == "json":
            documents.append(document(view, starts, ends, settings))
        else:
            texts.append(text(view, starts, ends, settings))
    write(json_document(documents) if arguments.format == "json" else "\n".join(texts))
    return 0


async def offsets(admin: Admin, view: TopicView, timestamp: int) -> dict[int, int | None]:
    """The offsets by partition; None for one without a leader."""
    wanted = {TopicPartition(view.name, number): timestamp for number in view.available}
    found = await admin.list_offsets(wanted)
    by_number: dict[int, int | None] = dict.fromkeys(view.partitions)
    for where, answer in found.items():
        if isinstance(answer, OffsetAt):
            by_number[where.partition] = answer.offset
        else:
            assert isinstance(answer, ClientError)
    return by_number


def document(
    view: TopicView,
    starts: dict[int, int | None],
    ends: dict[int, int | None],
    settings: list[ConfigEntry],
) -> dict[str, object]:
    """The topic as a JSON object."""
    return {
        "topic": view.name,
        "topic_id": uuid_to_text(view.topic_id),
        "internal": view.is_internal,
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "offline": list(partition.offline),
                "start_offset": starts[partition.partition],
                "end_offset": ends[partition.partition],
            }
            for partition in view.partitions.values()
        ],
        "configs": {
            entry.name: {"value": entry.value, "source": entry.source.name} for entry in settings
        },
    }


def text(
    view: TopicView,
    starts: dict[int, int | None],
    ends: dict[int, int | None],
    settings: list[ConfigEntry],
) -> str:
    """The topic as text; of the settings only those that were changed."""
    rows = [
        (
            partition.partition,
            partition.leader_id if partition.leader_id >= 0 else None,
            partition.leader_epoch,
            ",".join(map(str, partition.replicas)),
            ",".join(map(str, partition.isr)),
            starts[partition.partition],
            ends[partition.partition],
        )
        for partition in view.partitions.values()
    ]
    made = [
        (entry.name, entry.value, entry.source.name.lower().replace("_", " "))
        for entry in settings
        if entry.source not in (ConfigSource.DEFAULT, ConfigSource.UNKNOWN)
    ]
    parts = [f"{view.name}  ({uuid_to_text(view.topic_id)})\n", table(HEADINGS, rows)]
    if made:
        parts.append(table(("SETTING", "VALUE", "FROM"), made))
    return "\n".join(parts)
