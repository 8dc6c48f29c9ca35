"""Blocking Producer: ``client/producer.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from ottla.client.producer import Producer as AsyncProducer
from ottla.client.records.serializers import SendKey, SendValue
from ottla.client.sync.deliveries import BatchDelivery, Delivery
from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self, Unpack

    from ottla.client.process.environment import Environment
    from ottla.client.records.committed import Committed, ConsumerGroupMetadata
    from ottla.client.records.producer_record import Headers
    from ottla.client.records.rows import Records
    from ottla.client.sending.bulk import BulkSending as AsyncBulkSending
    from ottla.client.sending.transaction_calls import TransactionCalls as AsyncTransactionCalls
    from ottla.client.settings.config import ProducerConfig
    from ottla.client.settings.keywords import ProducerSettings
    from ottla.protocol.ids import TopicPartition


class BulkSending(Face):
    """The part of the client that is in client.sending.bulk."""

    @property
    def _inner(self) -> AsyncBulkSending:
        raise NotImplementedError

    def send_batch(
        self,
        topic: str,
        records: Records,
        *,
        partition: int | None = None,
        key: bytes | None = None,
        timestamp: int | None = None,
    ) -> BatchDelivery:
        """Take many records; waits as ``send`` does, so memory is bounded."""
        return BatchDelivery(
            self._run(
                self._inner.send_batch(
                    topic, records, partition=partition, key=key, timestamp=timestamp
                )
            ),
            self._loop,
        )

    def send_values(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> list[Delivery]:
        """As ``send_batch`` with a sequence; one delivery per batch the values went into."""
        return [
            Delivery(one, self._loop)
            for one in self._run(
                self._inner.send_values(topic, values, partition=partition, timestamp=timestamp)
            )
        ]


class TransactionCalls(Face):
    """The part of the client that is in client.sending.transaction_calls."""

    @property
    def _inner(self) -> AsyncTransactionCalls:
        raise NotImplementedError

    def init_transactions(self) -> None:
        """Become the only producer with this transactional id, once, before all else."""
        self._run(self._inner.init_transactions())

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._run(self._inner.begin_transaction())

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | Committed], group: str | ConsumerGroupMetadata
    ) -> None:
        """Commit a group's positions together with the records: they are the offsets of the next
        records to read."""
        self._run(self._inner.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        """Make everything sent since ``begin_transaction`` visible at once, as soon as all of it is
        acknowledged."""
        self._run(self._inner.commit_transaction())

    def abort_transaction(self) -> None:
        """Undo everything sent since ``begin_transaction``."""
        self._run(self._inner.abort_transaction())

    def transaction(self) -> AbstractContextManager[None]:
        """A transaction that is committed at the end of its block, and aborted if the block or the
        commit fails, which is then raised."""
        return self._within(lambda: self._inner.transaction())


class Producer(TransactionCalls, BulkSending, Generic[SendKey, SendValue]):
    """Use it as ``with ottla.sync.Producer("127.0.0.1:9092") as producer:``.

    It is ``ottla.Producer`` for programs that block, and may be used by several threads.
    """

    def __init__(
        self,
        bootstrap: str,
        config: ProducerConfig | None = None,
        environment: Environment | None = None,
        **settings: Unpack[ProducerSettings[SendKey, SendValue]],
    ) -> None:
        super().__init__()
        self._client = self._call(
            lambda: AsyncProducer[SendKey, SendValue](bootstrap, config, environment, **settings)
        )

    @property
    def config(self) -> ProducerConfig:
        """The settings."""
        return self._inner.config

    @property
    def _inner(self) -> AsyncProducer[SendKey, SendValue]:
        return self._client

    def __enter__(self) -> Self:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, traceback))

    def start(self) -> None:
        """Reach the cluster."""
        self._run(self._inner.start())

    def close(self, *, deliver: bool = True) -> None:
        """Deliver what is in memory, unless told not to, and end."""
        self._run(self._inner.close(deliver=deliver))

    def flush(self) -> None:
        """Return when all that was sent so far is delivered or has failed; it never raises for a
        record, since each record's own ``Delivery`` does."""
        self._run(self._inner.flush())

    def partitions_of(self, topic: str) -> int:
        """How many partitions the topic has, as heard of within ``metadata_max_age_ms``."""
        return self._run(self._inner.partitions_of(topic))

    def send(
        self,
        topic: str,
        value: SendValue | None = None,
        key: SendKey | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Take one record; waits only for the topic's metadata and while the memory is full."""
        return Delivery(
            self._run(
                self._inner.send(
                    topic, value, key, partition=partition, timestamp=timestamp, headers=headers
                )
            ),
            self._loop,
        )
