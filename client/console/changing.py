"""Carries out visitors' changes; each function returns the address to redirect to."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cluster.config_requests import ConfigChange, ResourceType
from ottla.client.console.browsing import limits_of, starts_at_time
from ottla.client.console.views.asked import BadRequest, whole_number
from ottla.client.console.views.change_forms import (
    PARTITIONS_MAX,
    lines_of,
    preview_document,
    read_positions,
    read_record_form,
)
from ottla.client.records.committed import Committed, refusal_of
from ottla.protocol.configs import ConfigOperation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.admin import Admin
    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.views.asked import Document

    Fields = Mapping[str, str]

DESTINATIONS = ("earliest", "latest", "offset", "time")


def topic_path(topic: str) -> str:
    """Return the address of a topic's page."""
    return f"/topics/{quote(topic, safe='')}"


def _count(fields: Fields, name: str) -> int:
    """Parse a number from 1 on; -1, the cluster's default, if the field is empty."""
    text = fields.get(name, "").strip()
    if not text:
        return -1
    value = whole_number(name, text)
    if not 1 <= value <= PARTITIONS_MAX:
        raise BadRequest(f"{name} is {value}; it must be at least 1")
    return value


async def create_topic(connection: ConsoleConnection, _topic: str, fields: Fields) -> str:
    """Create a topic."""
    name = fields.get("topic", "").strip()
    topic = NewTopic(
        name,
        _count(fields, "partitions"),
        _count(fields, "replication_factor"),
        lines_of(fields.get("configs", ""), "setting"),
    )
    admin = await connection.admin()
    try:
        await admin.create_topic(topic)
    except RequestRefused as error:
        if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise BadRequest(str(error)) from None
        raise
    connection.forget_topics()
    return topic_path(name)


async def change_setting(connection: ConsoleConnection, topic: str, fields: Fields) -> str:
    """Set a setting of a topic, or reset it to its default."""
    name = fields.get("name", "").strip()
    action = fields.get("action", "set")
    if action not in ("set", "reset"):
        raise BadRequest(f"action is {action[:40]!r}; it must be set or reset")
    change = ConfigChange(name, ConfigOperation.DELETE)
    if action == "set":
        change = ConfigChange(name, ConfigOperation.SET, fields.get("value", "").strip())
    admin = await connection.admin()
    await admin.alter_configs(ResourceType.TOPIC, topic, [change])
    return topic_path(topic)


async def send_record(connection: ConsoleConnection, topic: str, fields: Fields) -> str:
    """Send one record to a topic that exists."""
    record = read_record_form(fields)
    view = await (await connection.admin()).describe_topic(topic)
    if record.partition is not None and record.partition not in view.partitions:
        raise BadRequest(f"topic {topic!r} has no partition {record.partition}")
    async with connection.producer() as producer:
        try:
            delivery = await producer.send(
                topic,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=record.headers,
            )
        except RequestRefused as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                raise BadRequest("a record from the console has at most 1 MiB") from None
            raise
        delivered = await delivery
    where = f"partition={delivered.partition}&offset={delivered.offset}"
    return f"{topic_path(topic)}/record?{where}"


async def preview_positions(connection: ConsoleConnection, fields: Fields) -> Document:
    """Return the result that a reset of positions would have, without a change."""
    admin = await connection.admin()
    group_id = fields.get("id", "")
    current = await admin.groups.offsets(group_id)
    topic = fields.get("topic", "").strip()
    topics = [topic] if topic else sorted({where.topic for where in current})
    if not topics:
        raise BadRequest("the group has no positions: name a topic")
    targets: dict[TopicPartition, int] = {}
    for name in topics:
        targets |= await _targets(connection, admin, name, fields)
    if not topic:
        targets = {where: offset for where, offset in targets.items() if where in current}
    return preview_document(group_id, current, targets)


async def _targets(
    connection: ConsoleConnection, admin: Admin, topic: str, fields: Fields
) -> dict[TopicPartition, int]:
    """Return the new position in each partition of a topic, within its log."""
    limits, unread, _ = await limits_of(admin, topic, fields.get("partition", "").strip())
    if unread:
        raise BadRequest(f"partitions {unread} of topic {topic!r} do not answer: try again later")
    destination = fields.get("to", "")
    if destination not in DESTINATIONS:
        raise BadRequest(f"positions are moved to one of {', '.join(DESTINATIONS)}")
    places = {number: first for number, (first, _end) in limits.items()}
    if destination == "latest":
        places = {number: end for number, (_first, end) in limits.items()}
    elif destination == "offset":
        offset = whole_number("offset", fields.get("offset", "").strip())
        places = dict.fromkeys(limits, offset)
    elif destination == "time":
        wall_ms = connection.environment.clock.wall_ms()
        text = fields.get("time", "").strip()
        places = await starts_at_time(admin, topic, limits, text, wall_ms)
    return {
        TopicPartition(topic, number): min(max(place, limits[number][0]), limits[number][1])
        for number, place in places.items()
    }


async def set_positions(connection: ConsoleConnection, _topic: str, fields: Fields) -> str:
    """Set exactly the positions of a preview, for a group without members."""
    group_id = fields.get("id", "")
    targets = read_positions(fields.get("positions", ""))
    admin = await connection.admin()
    results = await admin.groups.commit(
        group_id, {where: Committed(offset) for where, offset in targets.items()}
    )
    refusal = refusal_of(results, BadRequest(f"group {group_id!r} has members: stop them first"))
    if refusal is not None:
        raise refusal
    return f"/group?id={quote(group_id, safe='')}"
