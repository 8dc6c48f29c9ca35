"""``ottla trace record``: when a record came, where it was when, and which groups are past it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ottla.client.admin import Admin
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.records import trace_request
from ottla.client.cli.records.committed_past import CommitsPast, read_commit
from ottla.client.cli.run import CommandError, run, sentence
from ottla.client.cli.settings import command_config, consumer_config
from ottla.client.consumer import Consumer
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from ottla.client.cli.records.committed_past import CommitPast

    Event = tuple[int, str, str]

OFFSETS_TOPIC = "__consumer_offsets"
POLL_MS = 500.0
# So many polls in a row without any progress end the reading.
EMPTY_POLLS_MAX = 60


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.verb in ("produce", "fetch"):
        return trace_request.main(arguments)
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Write what is known of the record."""
    where, offset = TopicPartition(arguments.topic, arguments.partition), arguments.offset
    async with Admin(arguments.bootstrap, command_config()) as admin:
        await _check(admin, where, offset)
        known = await admin.record_progress(where.topic, where.partition, offset)
    document: dict[str, Any] = {"topic": where.topic, "partition": where.partition}
    document |= {"offset": offset, "brokers": list(filter(None, known.values()))}
    document["remembering"] = sorted(known)
    document["groups"], document["groups_error"] = [], None
    if not arguments.no_groups:
        try:
            groups = await commits_past(arguments.bootstrap, where, offset)
        except ClientError as error:
            document["groups_error"] = sentence(error)
        else:
            document["groups"] = [
                {"group": name, **one._asdict()} for name, one in sorted(groups.items())
            ]
    if arguments.format == "json":
        write(json_document(document))
    else:
        write(report(document))
    return 0


async def _check(admin: Admin, where: TopicPartition, offset: int) -> None:
    """Raise CommandError for a record that is not there."""
    view = await admin.describe_topic(where.topic)
    if where.partition not in view.partitions:
        raise CommandError(f"topic {where.topic!r} has no partition {where.partition}")
    first = (await admin.list_offsets({where: EARLIEST_TIMESTAMP}))[where]
    if isinstance(first, ClientError):
        raise first
    if offset < 0:
        raise CommandError("an offset is not negative")
    if offset < first.offset:
        raise CommandError(f"the record is deleted: the partition begins at {first.offset}")
    latest = (await admin.list_offsets({where: LATEST_TIMESTAMP}))[where]
    if isinstance(latest, ClientError):
        raise latest
    if offset >= latest.offset:
        # The leader may have records that are not visible yet: where they wait is asked for, too.
        leader = view.partitions[where.partition].leader_id
        ends = (await admin.brokers.replica_ends({leader: [where]})).get(leader, {})
        end = latest.offset
        if not isinstance(ends, ClientError):
            end = max(end, ends.get(where, end))
        if offset >= end:
            raise CommandError(f"there is no offset {offset}, the end is {end}")


async def commits_past(
    bootstrap: str, where: TopicPartition, offset: int
) -> Mapping[str, CommitPast]:
    """Read the topic of commits to its end. Raises ClientError."""
    found = CommitsPast(where, offset)
    async with Consumer(bootstrap, consumer_config(read_committed=True)) as consumer:
        partitions = await consumer.partitions_of(OFFSETS_TOPIC)
        ends = await consumer.end_offsets(partitions)
        firsts = await consumer.offsets_at(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        wanted = [one for one in partitions if ends[one] > firsts[one].offset]
        consumer.assign(wanted)
        for one in wanted:
            consumer.seek(one, firsts[one].offset)
        positions: list[int | None] = []
        empty_polls = 0
        while any((consumer.position(one) or 0) < ends[one] for one in wanted):
            for record in await consumer.poll(POLL_MS):
                commit = read_commit(record.key, record.value)
                if commit is not None:
                    found.add(commit)
            before, positions = positions, [consumer.position(one) for one in wanted]
            empty_polls = empty_polls + 1 if positions == before else 0
            if empty_polls >= EMPTY_POLLS_MAX:
                raise CommandError(f"reading {OFFSETS_TOPIC} makes no progress; try --no-groups")
    return found.groups


def report(document: Mapping[str, Any]) -> str:
    """The document as lines for a person, in the order of time."""
    place = f"{document['topic']}-{document['partition']} offset {document['offset']}"
    events = sorted((*_of_brokers(document["brokers"]), *_of_groups(document["groups"])))
    text = f"{place}\n"
    if events:
        text += table(("BY", "WHAT", "NOT BEFORE"), [_row(event) for event in events])
    text += "".join(f"{line}\n" for line in _lacks(document))
    return text


def _of_brokers(brokers: Iterable[Mapping[str, Any]]) -> Iterable[Event]:
    for one in brokers:
        leader = one["node_id"]
        for node, moment in one["replicas"].items():
            word = "leader" if int(node) == leader else "follower"
            yield _event(f"stored by the {word}, broker {node}", moment)
        if one["visible"] is not None:
            yield _event(f"visible: below the high watermark of broker {leader}", one["visible"])


def _event(what: str, moment: Mapping[str, int | None]) -> Event:
    by_ms, after_ms = moment["by_ms"], moment["after_ms"]
    assert by_ms is not None
    return by_ms, what, "not known any more" if after_ms is None else time_text(after_ms)


def _of_groups(groups: Iterable[Mapping[str, Any]]) -> Iterable[Event]:
    for one in groups:
        earlier = "" if one["is_first"] else "earlier commits are not known any more"
        yield one["time_ms"], f"committed past by group {one['group']}", earlier


def _row(event: Event) -> tuple[str, str, str]:
    time_ms, what, before = event
    return time_text(time_ms), what, before


def time_text(time_ms: int) -> str:
    """A time in UTC, to the millisecond."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _lacks(document: Mapping[str, Any]) -> Iterable[str]:
    """What is not known, and what to do."""
    if not document["remembering"]:
        yield (
            "no broker remembers the progress of replicas: set ottla.trace.interval.ms, "
            "for example to 100"
        )
    elif not document["brokers"]:
        yield "no broker remembers anything of this partition any more"
    elif not any(one["replicas"] for one in document["brokers"]):
        yield "no replica has had this record since the brokers remember"
    if document["groups_error"] is not None:
        yield f"the commits of groups cannot be read: {document['groups_error']}"
