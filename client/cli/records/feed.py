"""Sends the records of ``ottla produce``, and keeps which lines of the input are delivered."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.client.cli.records.parsed_records import Outgoing
from ottla.client.cli.run import CommandError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.client.producer import Producer
    from ottla.client.records.delivery import Delivery
    from ottla.wire.errors import ClientError

    Parse = Callable[[bytes], Outgoing]

# What a record needs in a request beside its value.
_ROOM_BYTES = 1024


class _Pending(NamedTuple):
    """A batch, how many records of the input it has, and the line of the first of them."""

    delivery: Delivery
    record_count: int
    line: int


class Feed:
    """Sends records to one topic. Keeps one delivery per batch, not per record.

    Args:
        producer: A producer that is connected.
        topic: The topic's name.
        partition: The partition of all records; None lets the producer choose.
        parse: Turns a line into a record; None if each line is just a value.
        line: The number of the first line that is sent, counted from 1.

    Attributes:
        failure: The error of the first failed record. Records after it in its batch are
            delivered if the broker found the batch too large and took smaller ones.
        failed_line: The first line that is not delivered, 0 while all are.
        stored_after: How many records behind ``failed_line`` are delivered nevertheless.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        partition: int | None,
        parse: Parse | None,
        line: int = 1,
    ) -> None:
        self.record_count = 0
        self.failed_count = 0
        self.failure: ClientError | None = None
        self.failed_line = 0
        self.stored_after = 0
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._parse = parse
        self._line = line
        self._value_bytes_max = producer.config.request_bytes_max - _ROOM_BYTES
        self._pending: deque[_Pending] = deque()

    async def send(self, lines: Sequence[bytes]) -> None:
        """Send lines as records. Raises CommandError for an invalid line."""
        if self._parse is None and max(map(len, lines), default=0) <= self._value_bytes_max:
            await self._send_values(lines)
        else:
            # One by one, so that a refusal is known to be that of this line.
            for line in lines:
                await self._send_one(line)
        while self._pending and self._pending[0].delivery.done:
            await self._settle()

    async def _send_values(self, lines: Sequence[bytes]) -> None:
        sent = await self._producer.send_batch(self._topic, lines, partition=self._partition)
        self.record_count += len(lines)
        for part in sent.parts:
            self._pending.append(_Pending(part, part.record_count, self._line))
            self._line += part.record_count

    async def _send_one(self, line: bytes) -> None:
        try:
            record = Outgoing(None, line) if self._parse is None else self._parse(line)
        except CommandError as error:
            raise CommandError(f"line {self._line}: {error}") from None
        delivery = await self._producer.send(
            self._topic,
            record.value,
            record.key,
            partition=record.partition if self._partition is None else self._partition,
            timestamp=record.timestamp,
            headers=record.headers,
        )
        self.record_count += 1
        last = self._pending[-1] if self._pending else None
        if last is not None and last.delivery.is_together_with(delivery):
            self._pending[-1] = _Pending(last.delivery, last.record_count + 1, last.line)
        else:
            self._pending.append(_Pending(delivery, 1, self._line))
        self._line += 1

    async def _settle(self) -> None:
        delivery, count, line = self._pending.popleft()
        for outcome in await delivery.outcomes(count):
            if outcome.error is not None:
                self.failed_count += outcome.record_count
                self.failure = self.failure or outcome.error
                # Batches are in the order of their first lines.
                self.failed_line = self.failed_line or line
            elif self.failed_line:
                self.stored_after += outcome.record_count
            line += outcome.record_count

    async def finish(self) -> None:
        """Wait until everything has been acknowledged or has failed."""
        await self._producer.flush()
        while self._pending:
            await self._settle()

    @property
    def next_line(self) -> int:
        """The first line that is not delivered, or that was not sent yet."""
        return self.failed_line or self._line
