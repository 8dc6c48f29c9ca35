"""``ottla transactions blame`` and ``describe``: transactions as text or JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ottla.client.administration.transaction_search import TransactionHealth, find_open
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.settings import first_batch_config
from ottla.client.consumer import Consumer
from ottla.client.fetching.positions import LATEST_TIMESTAMP
from ottla.client.process.environment import real_environment
from ottla.client.settings.config import Isolation
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.client.admin import Admin
    from ottla.client.administration.transaction_requests import TransactionView
    from ottla.client.administration.transaction_search import FoundTransaction
    from ottla.protocol.ids import TopicPartition

BATCH_WAIT_MS = 3_000


def wall_now_ms() -> int:
    """The present time, in ms since 1970."""
    return real_environment().clock.wall_ms()


def at(time_ms: int | None) -> str | None:
    """A time as text in UTC; None if unknown."""
    if time_ms is None or time_ms < 0:
        return None
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment.isoformat(sep=' ', timespec='milliseconds').removesuffix('+00:00')}Z"


def span(milliseconds: int) -> str:
    """A duration as text, in its largest unit."""
    seconds = max(0, milliseconds) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def described(views: Sequence[TransactionView], form: str) -> str:
    """Transactional ids as their coordinators report them."""
    if form == "json":
        return json_document([transaction_document(view) for view in views])
    texts = []
    for view in views:
        facts = [
            ("state", view.state),
            ("coordinator", f"broker {view.coordinator_id}"),
            ("producer", f"id {view.producer_id}, epoch {view.producer_epoch}"),
            ("timeout", f"{view.timeout_ms} ms"),
            ("since", at(view.start_time_ms)),
            ("partitions", " ".join(f"{one.topic}:{one.partition}" for one in view.partitions)),
        ]
        texts.append(facts_text(view.transactional_id, facts))
    return "\n".join(texts)


def facts_text(title: str, facts: Sequence[tuple[str, str | None]]) -> str:
    """A title and named facts under it, without unknown ones."""
    lines = [f"  {name:<18}{value}\n" for name, value in facts if value]
    return f"{title}\n{''.join(lines)}"


def transaction_document(view: TransactionView) -> dict[str, object]:
    """A transactional id as a JSON object."""
    return {
        "transactional_id": view.transactional_id,
        "coordinator": view.coordinator_id,
        "state": view.state,
        "producer_id": view.producer_id,
        "producer_epoch": view.producer_epoch,
        "timeout_ms": view.timeout_ms,
        "start_time_ms": view.start_time_ms,
        "partitions": [f"{one.topic}:{one.partition}" for one in view.partitions],
    }


def found_document(one: FoundTransaction, first_time_ms: int | None) -> dict[str, object]:
    """An open transaction in a partition as a JSON object."""
    known = one.transaction
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "standing": one.standing.value,
        "first_offset": one.first_offset,
        "first_time_ms": first_time_ms,
        "last_time_ms": one.producer.last_time_ms,
        "producer_id": one.producer.producer_id,
        "producer_epoch": one.producer.producer_epoch,
        "coordinator_epoch": one.producer.coordinator_epoch,
        "transaction": None if known is None else transaction_document(known),
        "advice": advice(one, wall_now_ms()),
    }


def open_transaction_text(one: FoundTransaction) -> str:
    """A phrase that names an open transaction."""
    where = one.partition
    name = ""
    if one.transaction is not None:
        name = f" ({one.transaction.transactional_id!r})"
    return (
        f"the transaction of producer {one.producer.producer_id}{name} in {where.topic}:"
        f"{where.partition} from offset {one.first_offset} on"
    )


def advice(one: FoundTransaction, wall_ms: int) -> str:
    """What will happen to a transaction, and what can be done about it."""
    known = one.transaction
    where = f"{one.partition.topic}:{one.partition.partition}"
    if one.standing is TransactionHealth.HANGING:
        return (
            "no coordinator will end it; 'ottla transactions abort "
            f"{where} --first-offset {one.first_offset}' does"
        )
    if known is None:
        return (
            "not every coordinator can be asked, so it may end by itself; 'ottla cluster' shows "
            "who is missing"
        )
    who = f"transactional id {known.transactional_id!r}"
    if one.standing is TransactionHealth.ENDING:
        word = "committed" if known.state == "PrepareCommit" else "aborted"
        return (
            f"{who} is being {word} by broker {known.coordinator_id}, which needs the leaders of "
            f"all of its partitions; 'ottla transactions describe {known.transactional_id}' shows "
            "those it waits for"
        )
    if one.standing is TransactionHealth.OVERDUE:
        return (
            f"{who} is open for longer than its {known.timeout_ms} ms, and broker "
            f"{known.coordinator_id} should have aborted it; is __transaction_state in sync?"
        )
    left = ""
    if known.start_time_ms is not None:
        left = f" in {span(known.start_time_ms + known.timeout_ms - wall_ms)}"
    return (
        f"its producer may still end {who}, or its coordinator aborts it{left}; a new producer "
        "with that id aborts it at once"
    )


async def blame(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write which transaction holds back the last stable offset of a partition, and since when."""
    where: TopicPartition = arguments.partition
    stable = await _end(admin, where, Isolation.READ_COMMITTED)
    watermark = await _end(admin, where, Isolation.READ_UNCOMMITTED)
    search = await find_open(admin.transactions, [where], wall_now_ms())
    if where in search.unasked:
        raise search.unasked[where]
    found = search.found
    first_ms = None
    if found:
        first_ms = await _time_of(arguments.bootstrap, where, found[0].first_offset)
    if arguments.format == "json":
        times = [first_ms, *(None for _ in found[1:])]
        document = {
            "topic": where.topic,
            "partition": where.partition,
            "last_stable_offset": stable,
            "high_watermark": watermark,
            "open": [found_document(*pair) for pair in zip(found, times, strict=True)],
        }
        write(json_document(document))
        return 0
    write(_blame_text(where, stable, watermark, found, first_ms))
    return 0


async def _end(admin: Admin, where: TopicPartition, isolation: Isolation) -> int:
    """The end offset at that isolation level. Raises ClientError."""
    found = await admin.list_offsets({where: LATEST_TIMESTAMP}, isolation)
    answer = found[where]
    if isinstance(answer, ClientError):
        raise answer
    return answer.offset


async def _time_of(bootstrap: str, where: TopicPartition, offset: int) -> int | None:
    """The timestamp of the batch at that offset; None if it cannot be read."""
    try:
        async with Consumer(bootstrap, first_batch_config()) as consumer:
            consumer.assign([where])
            consumer.seek(where, offset)
            for batch in await consumer.poll_batches(BATCH_WAIT_MS):
                return batch.header.base_timestamp
    except ClientError:
        pass
    return None


def _blame_text(
    where: TopicPartition,
    stable: int,
    watermark: int,
    found: Sequence[FoundTransaction],
    first_ms: int | None,
) -> str:
    title = f"{where.topic}:{where.partition}"
    if not found:
        if stable >= watermark:
            return f"{title}: nothing holds readers back; they get everything up to {watermark}\n"
        return f"{title}: what held readers back at {stable} has ended just now\n"
    one, now_ms = found[0], wall_now_ms()
    since = at(first_ms)
    count = watermark - stable
    waiting, verb = ("1 record", "waits") if count == 1 else (f"{count} records", "wait")
    known = one.transaction
    facts = [
        ("blocked at", f"{stable}, so {waiting} up to {watermark} {verb}"),
        ("by producer", f"id {one.producer.producer_id}, epoch {one.producer.producer_epoch}"),
        ("transactional id", None if known is None else known.transactional_id),
        ("first offset", str(one.first_offset)),
        ("since", None if since is None else f"{since}, {span(now_ms - (first_ms or 0))} ago"),
        ("last write", at(one.producer.last_time_ms)),
        ("state", _state(one)),
        ("what to do", advice(one, now_ms)),
    ]
    text = facts_text(title, facts)
    if len(found) > 1:
        rows = [
            (other.first_offset, other.producer.producer_id, other.standing.value)
            for other in found[1:]
        ]
        text += "\nand behind it\n" + table(("FIRST-OFFSET", "PRODUCER-ID", "STANDING"), rows)
    return text


def _state(one: FoundTransaction) -> str:
    known = one.transaction
    if known is None:
        return f"{one.standing.value}, no coordinator is known to know it"
    begun = at(known.start_time_ms)
    times = f", begun {begun}, timeout {known.timeout_ms} ms" if begun else ""
    return f"{one.standing.value}; {known.state} for broker {known.coordinator_id}{times}"
