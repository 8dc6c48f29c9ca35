"""Responses that continue until the visitor leaves: the live tail of a topic."""

from __future__ import annotations

import json
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from ottla.client.console.browsing import limits_of
from ottla.client.console.record_runs import record_runs
from ottla.client.console.views.failures import TOO_MANY, Refused
from ottla.client.console.views.filters import read_filter
from ottla.client.console.views.formats import checked_format
from ottla.client.console.views.record_views import record_row
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.record_runs import SeenRecord
    from ottla.client.console.views.asked import Document, Question
    from ottla.client.console.views.filters import RecordFilter

TAILS_MAX = 20
# Live pages of partitions share the recordings of their visitors.
ALIVE_PAGES_MAX = 100
# A browser cannot show more in a second, and a person cannot read more.
ROWS_PER_POLL = 100
POLL_MS = 1_000.0


def event(name: str, document: Document) -> bytes:
    """One server-sent event."""
    text = json.dumps(document, ensure_ascii=True)
    return f"event: {name}\ndata: {text}\n\n".encode()


class Tails:
    """The live pages and downloads of one console. Their number is limited, because each of them
    may hold a consumer.

    ``is_ending`` says whether the web server is about to stop; live pages end then."""

    def __init__(self, places: int | None = None) -> None:
        self._places = places
        self._open = 0
        self.is_ending: Callable[[], bool] = lambda: False

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold one of the slots. Raises Refused if all are taken."""
        places = TAILS_MAX if self._places is None else self._places
        if self._open >= places:
            raise Refused(TOO_MANY, f"{places} live pages or downloads are open: close one")
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def events(
        self, connection: ConsoleConnection, question: Question
    ) -> AsyncGenerator[bytes, None]:
        """Yield the records that arrive from now on, as events, until the visitor leaves.

        Each second has at most a hundred records; ``skipped`` is the number of further ones."""
        topic = question.path["topic"]
        form = checked_format(question.text("format"))
        wanted = read_filter(question)
        async with (
            self.place(),
            connection.consumer(read_committed=question.flag("committed")) as consumer,
        ):
            admin = await connection.admin()
            limits, _unread, _count = await limits_of(admin, topic, question.text("partition"))
            ends = {TopicPartition(topic, one): end for one, (_first, end) in limits.items()}
            consumer.assign(ends)
            for where, end in ends.items():
                consumer.seek(where, end)
            clock = connection.environment.clock
            yield event("ready", {"partitions": sorted(limits)})
            second_ms, shown = clock.now_ms(), 0
            skipped = 0
            while not self.is_ending() and not connection.is_closed:
                try:
                    found = await consumer.poll_columns(POLL_MS)
                except ClientError as error:
                    yield event("failure", {"error": str(error)})
                    return
                if clock.now_ms() - second_ms >= POLL_MS:
                    if skipped:
                        yield event("skipped", {"records": skipped})
                    second_ms, shown, skipped = clock.now_ms(), 0, 0
                for where, columns in found:
                    async with aclosing(record_runs(where, columns, connection.decode)) as runs:
                        async for record in passing(runs, wanted):
                            if shown >= ROWS_PER_POLL:
                                skipped += 1
                                continue
                            shown += 1
                            yield event("record", record_row(record, form))
                if not found:
                    # Detects that the visitor has left.
                    yield b": no new records\n\n"


async def passing(
    runs: AsyncGenerator[list[SeenRecord], None], wanted: RecordFilter
) -> AsyncGenerator[SeenRecord, None]:
    """Yield the records that pass a filter."""
    async for records in runs:
        for record in filter(wanted.passes, records):
            yield record
