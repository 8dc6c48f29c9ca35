"""Prepares records before a producer takes them: interceptors and serializers.

Created only if the configuration has some, so that other producers pay for one comparison with
None.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.records.interceptors import BatchInterceptor, DeliveryReport, ProducerRecord
from ottla.client.records.record_checks import as_bytes
from ottla.client.records.serializers import PerTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.records.delivery import BatchDelivered
    from ottla.client.sending.batch import Batch
    from ottla.client.settings.config import ProducerConfig

logger = logging.getLogger(__name__)


class Preparation:
    """Applies the configured interceptors and serializers. Owned by one producer."""

    __slots__ = ("_interceptors", "_key", "_value")

    def __init__(self, config: ProducerConfig) -> None:
        self._interceptors = config.interceptors
        self._key = PerTopic(config.key_serializer or as_bytes)
        self._value = PerTopic(config.value_serializer or as_bytes)

    def prepared(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record with key and value as bytes. Raises the application's errors."""
        for interceptor in self._interceptors:
            record = interceptor.on_send(record)
        return record._replace(
            key=self._serialized(self._key, record.topic, record.key, "key"),
            value=self._serialized(self._value, record.topic, record.value, "value"),
        )

    def _serialized(
        self, serialize: PerTopic, topic: str, given: object, what: str
    ) -> bytes | None:
        try:
            return as_bytes(serialize(topic, given))
        except Exception as error:
            error.add_note(f"while the {what} of a record for topic {topic!r} was serialized")
            raise


def preparation(config: ProducerConfig) -> Preparation | None:
    """Return the configured preparation, None if there is none."""
    if config.interceptors or config.key_serializer or config.value_serializer:
        return Preparation(config)
    return None


class Reporter:
    """Reports the fate of each batch to the application's callbacks."""

    __slots__ = ("_batch_listeners", "_listeners")

    def __init__(
        self,
        listeners: list[Callable[[DeliveryReport], object]],
        batch_listeners: list[BatchInterceptor],
    ) -> None:
        self._listeners = listeners
        self._batch_listeners = batch_listeners

    def delivered(self, batch: Batch, fate: BatchDelivered) -> None:
        """Report that the batch is stored."""
        report = DeliveryReport(
            *batch.partition, fate.base_offset, batch.record_count, fate.append_time_ms
        )
        self._tell(batch, report)

    def failed(self, batch: Batch, error: Exception) -> None:
        """Report that the batch will not be sent again."""
        self._tell(batch, DeliveryReport(*batch.partition, -1, batch.record_count, error=error))

    def _tell(self, batch: Batch, report: DeliveryReport) -> None:
        for listener in self._listeners:
            self._call(partial(listener, report))
        if self._batch_listeners:
            headers = [item[3] for item in batch.items]
            first_ms = batch.items[0][0] if batch.items else -1
            for one in self._batch_listeners:
                self._call(partial(one.on_batch, report, headers, first_ms))

    def _call(self, listener: Callable[[], object]) -> None:
        try:
            listener()
        except Exception:
            # A failing callback must not affect the records behind.
            logger.exception("a delivery callback has failed")


def reporter(config: ProducerConfig) -> Reporter | None:
    """Return the reporter of deliveries, None if no callback is configured."""
    listeners: list[Callable[[DeliveryReport], object]] = [
        interceptor.on_delivery for interceptor in config.interceptors
    ]
    if config.on_delivery is not None:
        listeners.append(config.on_delivery)
    batch_listeners = [one for one in config.interceptors if isinstance(one, BatchInterceptor)]
    return Reporter(listeners, batch_listeners) if listeners else None
