"""What a blocking producer gives back for records it has taken."""

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
    """Ask ``result`` to learn that the record is acknowledged, and where it is."""

    def __init__(self, inner: AsyncDelivery, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    @property
    def partition(self) -> TopicPartition:
        """Where the record goes."""
        return self._inner.partition

    @property
    def done(self) -> bool:
        """Whether ``result`` returns, or raises, at once."""
        return self._inner.done

    def result(self) -> Delivered:
        """Wait for the acknowledgement. Raises ClientError: the record was not delivered in
        time, which ``delivery_timeout_ms`` bounds, or was refused."""
        inner = self._inner

        async def wait() -> Delivered:
            return await inner

        return self._run(wait())


class BatchDelivery(Face):
    """Ask ``result`` to learn that all records of one call are acknowledged, and where."""

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
        """Wait for all acknowledgements. Raises what the first failed part does, once every part
        has its fate."""
        inner = self._inner

        async def wait() -> list[DeliveredBatch]:
            return await inner

        return self._run(wait())
