"""The results of sends for blocking code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from ottla.client.process.loop_thread import LoopThread
    from ottla.client.records.delivery import BatchDelivery as AsyncBatchDelivery
    from ottla.client.records.delivery import Delivered, DeliveredBatch
    from ottla.client.records.delivery import Delivery as AsyncDelivery
    from ottla.protocol.ids import TopicPartition


class Delivery(Face):
    """The future acknowledgement of a record: ``result`` waits for it."""

    def __init__(self, inner: AsyncDelivery, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    @property
    def partition(self) -> TopicPartition:
        """The partition of the record."""
        return self._inner.partition

    @property
    def done(self) -> bool:
        """Whether ``result`` returns, or raises, at once."""
        return self._inner.done

    def result(self) -> Delivered:
        """Wait for the acknowledgement.

        Returns:
            Where the record is.

        Raises:
            ClientError: The record was refused, or was not acknowledged within
                ``delivery_timeout_ms``.
        """
        inner = self._inner

        async def wait() -> Delivered:
            return await inner

        return self._run(wait())


class BatchDelivery(Face):
    """The future acknowledgement of all records of one call: ``result`` waits for it."""

    def __init__(self, inner: AsyncBatchDelivery, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    @property
    def record_count(self) -> int:
        """How many records the call took."""
        return self._inner.record_count

    @property
    def done(self) -> bool:
        """Whether ``result`` returns, or raises, at once."""
        return self._inner.done

    def result(self) -> list[DeliveredBatch]:
        """Wait for all acknowledgements.

        Returns:
            Where the records are, one item for each batch.

        Raises:
            ClientError: The error of the first failed part, once every part is acknowledged or
                failed.
        """
        inner = self._inner

        async def wait() -> list[DeliveredBatch]:
            return await inner

        return self._run(wait())
