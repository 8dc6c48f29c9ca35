"""Blocking Producer: ``client/producer.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from ottla.client.producer import Producer as AsyncProducer
from ottla.client.records.serializers import SendKey, SendValue
from ottla.client.settings.config import ProducerConfig
from ottla.client.settings.listing import lists_settings
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
    from ottla.client.settings.keywords import ProducerSettings
    from ottla.protocol.ids import TopicPartition


class BulkSending(Face):
    """The calls of ``client.sending.bulk``."""

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
        """Take many records; wait while memory is full, as ``send`` does.

        Serializers and interceptors do not see these records: they are bytes already. Records
        without a key stay together. A batch may have up to ``request_bytes_max`` bytes. The caller
        may change a sequence as soon as this returns, but the memory behind columns and Arrow data
        only after delivery.

        Args:
            topic: The topic's name.
            records: A sequence of values, a ``Columns``, or an object with Arrow data (pyarrow,
                polars, ...) that has a column ``value`` and optionally ``key``, ``timestamp``,
                ``headers`` and ``partition``.
            partition: The partition of all records; None (default) lets each key decide.
            key: The key of all values of a sequence; None by default.
            timestamp: The time of all values of a sequence, in milliseconds since 1970; None
                (default) for now.

        Returns:
            The ``BatchDelivery`` of all records.

        Raises:
            RequestRefused: As ``send``; some records may have been taken.
            TypeError: ``records`` has another type; some records may have been taken.
        """
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
        """Take a sequence of values, as ``send_batch`` does.

        Args:
            topic: The topic's name.
            values: The values; None is a tombstone.
            partition: The partition of all values; None (default) lets the partitioner choose.
            timestamp: The time of all values, in milliseconds since 1970; None (default) for now.

        Returns:
            One ``Delivery`` for each batch that the values went into.

        Raises:
            RequestRefused: As ``send``.
        """
        return [
            Delivery(one, self._loop)
            for one in self._run(
                self._inner.send_values(topic, values, partition=partition, timestamp=timestamp)
            )
        ]


class TransactionCalls(Face):
    """The calls of ``client.sending.transaction_calls``."""

    @property
    def _inner(self) -> AsyncTransactionCalls:
        raise NotImplementedError

    def init_transactions(self) -> None:
        """Take over the transactional id: call it once, before all other transactional calls.

        The coordinator aborts the open transaction of a previous producer with this id, or
        completes it if its commit had begun, and fences that producer."""
        self._run(self._inner.init_transactions())

    def begin_transaction(self) -> None:
        """Begin a transaction. Sends nothing: the coordinator learns of it with the first
        record."""
        self._run(self._inner.begin_transaction())

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | Committed], group: str | ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets as a part of the transaction; return when the coordinator has
        them.

        Args:
            offsets: For each partition the offset of the next record to read.
            group: The member's ``Consumer.group_metadata()``, with which the coordinator refuses a
                member that has lost its partitions (KIP-447); or the group's name alone, which is
                safe only if no two consumers can read the same partitions.

        Raises:
            AbortRequired: The offsets cannot be part of this transaction; abort it.
            ValueError: ``group`` has an empty name.
        """
        self._run(self._inner.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        """Wait until all records are acknowledged, then commit the transaction.

        Raises:
            AbortRequired: The transaction can no longer be committed; abort it.
        """
        self._run(self._inner.commit_transaction())

    def abort_transaction(self) -> None:
        """Abort the transaction. Drops the records that are still in memory, and waits for those in
        flight."""
        self._run(self._inner.abort_transaction())

    def transaction(self) -> AbstractContextManager[None]:
        """A transaction for the length of a ``with`` block.

        It is committed at the end of the block. If the block or the commit raises, it is aborted
        and the error is raised. After TransactionTimedOut of the commit the outcome is unknown:
        call ``commit_transaction`` again to learn it; no other call is allowed before."""
        return self._within(lambda: self._inner.transaction())


@lists_settings(ProducerConfig)
class Producer(TransactionCalls, BulkSending, Generic[SendKey, SendValue]):
    """``ottla.Producer`` for blocking code; several threads may use it.

    Args:
        bootstrap: Addresses of some brokers, as ``"host:port,host:port"``; the port defaults to
            9092.
        config: Settings as an object; the defaults of ``ProducerConfig`` if None.
        environment: Clock, network and random source; the real ones if None. For simulations.
        settings: Single settings, which override those of ``config``.

    Raises:
        ValueError: A setting has an invalid value, or settings contradict each other.
        TypeError: A setting is unknown or has the wrong type.
        ImportError: The library of the chosen compression is not installed.

    Example:
        with ottla.sync.Producer("127.0.0.1:9092", linger_ms=20) as producer:
            delivered = producer.send("orders", b"value", key=b"key").result()
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
        """Connect to the cluster and start the sender. ``with`` calls it.

        Raises:
            TransportError: No broker answered; BrokerUnreachable for a wrong address.
            ClientClosed: The producer was started before.
        """
        self._run(self._inner.start())

    def close(self, *, deliver: bool = True) -> None:
        """End the producer and close its connections. A second call does nothing.

        Args:
            deliver: Deliver the records in memory first (default); False drops them.
        """
        self._run(self._inner.close(deliver=deliver))

    def flush(self) -> None:
        """Wait until every record sent so far is delivered or has failed.

        It raises nothing for a failed record: the record's own ``Delivery`` raises."""
        self._run(self._inner.flush())

    def partition_count(self, topic: str) -> int:
        """Count the partitions of a topic, from metadata no older than ``metadata_max_age_ms``.

        Args:
            topic: The topic's name.

        Returns:
            The number of partitions.

        Raises:
            RequestRefused: The topic does not exist.
        """
        return self._run(self._inner.partition_count(topic))

    def partitions_of(self, topic: str) -> int:
        """Deprecated: call ``partition_count``; a consumer's ``partitions_of`` returns a list.

        Args:
            topic: The topic's name.

        Returns:
            The number of partitions.

        Raises:
            RequestRefused: The topic does not exist.
        """
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
        """Take one record; wait only for the topic's metadata and while memory is full.

        Args:
            topic: The topic's name.
            value: The value; None (default) is a tombstone in compacted topics.
            key: The key, which chooses the partition; None (default) for no key.
            partition: The partition's number; None (default) leaves the choice to the partitioner.
            timestamp: Milliseconds since 1970; None (default) for now.
            headers: Pairs of a name and bytes; none by default.

        Returns:
            The record's ``Delivery``, which reports the acknowledgement.

        Raises:
            RequestRefused: The topic or partition does not exist, or the record is larger than
                ``request_bytes_max``.
            ClientClosed: The producer is not running.
        """
        return Delivery(
            self._run(
                self._inner.send(
                    topic, value, key, partition=partition, timestamp=timestamp, headers=headers
                )
            ),
            self._loop,
        )
