"""What the application has put between itself and the bytes: interceptors and serializers.

Made only where a configuration names some, so that the others pay for a comparison with None.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ottla.client.records.interceptors import DeliveryReport, ProducerRecord
from ottla.client.records.record_checks import as_bytes
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import DeserializationFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.client.records.consumer_record import ConsumerRecord
    from ottla.client.records.delivery import BatchDelivered
    from ottla.client.sending.batch import Batch
    from ottla.client.settings.config import ConsumerConfig, ProducerConfig

    Translate = Callable[[Any], Any]

logger = logging.getLogger(__name__)


class PerTopic:
    """A serializer or deserializer, as the function for each topic."""

    __slots__ = ("_functions", "_given")

    def __init__(self, given: Any) -> None:
        self._given = given
        self._functions: dict[str, Translate] = {}

    def __call__(self, topic: str, value: Any) -> Any:
        """The value translated; null stays null."""
        if value is None:
            return None
        function = self._functions.get(topic)
        if function is None:
            for_topic = getattr(self._given, "for_topic", None)
            function = self._given if for_topic is None else for_topic(topic)
            self._functions[topic] = function
        return function(value)


class Preparation:
    """What happens to a record before the producer takes it."""

    __slots__ = ("_interceptors", "_key", "_value")

    def __init__(self, config: ProducerConfig) -> None:
        self._interceptors = config.interceptors
        self._key = PerTopic(config.key_serializer or as_bytes)
        self._value = PerTopic(config.value_serializer or as_bytes)

    def prepared(self, record: ProducerRecord) -> ProducerRecord:
        """The record with its key and value as bytes. Raises what the application's code does."""
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
    """What there is to do with every record, None if there is nothing."""
    if config.interceptors or config.key_serializer or config.value_serializer:
        return Preparation(config)
    return None


class Reporter:
    """Tells the application the fate of each batch."""

    __slots__ = ("_listeners",)

    def __init__(self, listeners: list[Callable[[DeliveryReport], object]]) -> None:
        self._listeners = listeners

    def delivered(self, batch: Batch, fate: BatchDelivered) -> None:
        """The batch is stored."""
        self._tell(
            DeliveryReport(
                *batch.partition, fate.base_offset, batch.record_count, fate.append_time_ms
            )
        )

    def failed(self, batch: Batch, error: Exception) -> None:
        """The batch will not be sent again."""
        self._tell(DeliveryReport(*batch.partition, -1, batch.record_count, error=error))

    def _tell(self, report: DeliveryReport) -> None:
        for listener in self._listeners:
            try:
                listener(report)
            except Exception:
                # Its trouble must not become that of the records behind.
                logger.exception("a delivery callback has failed")


def reporter(config: ProducerConfig) -> Reporter | None:
    """Who tells of deliveries, None if nobody wants to know."""
    listeners: list[Callable[[DeliveryReport], object]] = [
        interceptor.on_delivery for interceptor in config.interceptors
    ]
    if config.on_delivery is not None:
        listeners.append(config.on_delivery)
    return Reporter(listeners) if listeners else None


class Reading:
    """What happens to records before the application gets them."""

    __slots__ = ("_interceptors", "_key", "_value")

    def __init__(self, config: ConsumerConfig) -> None:
        self._interceptors = config.interceptors
        self._key = PerTopic(config.key_deserializer) if config.key_deserializer else None
        self._value = PerTopic(config.value_deserializer) if config.value_deserializer else None

    def read(
        self, records: list[ConsumerRecord]
    ) -> tuple[list[ConsumerRecord[Any, Any]], DeserializationFailed | None]:
        """The records up to the first that cannot be read, and why it cannot."""
        done: list[ConsumerRecord[Any, Any]] = []
        failure: DeserializationFailed | None = None
        for record in records:
            try:
                done.append(self._deserialized(record))
            except DeserializationFailed as error:
                failure = error
                break
        return done, failure

    def intercepted(
        self, records: list[ConsumerRecord[Any, Any]]
    ) -> list[ConsumerRecord[Any, Any]]:
        """What the interceptors make of them."""
        for interceptor in self._interceptors:
            records = interceptor.on_consume(records)
        return records

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord[Any, Any]:
        key: Any = record.key
        value: Any = record.value
        what = "key"
        try:
            if self._key is not None:
                key = self._key(record.topic, key)
            what = "value"
            if self._value is not None:
                value = self._value(record.topic, value)
        except Exception as error:
            where = TopicPartition(record.topic, record.partition)
            raise DeserializationFailed(where, record.offset, what, error) from error
        return record._replace(key=key, value=value)


def commit_listener(
    config: ConsumerConfig,
) -> Callable[[Mapping[TopicPartition, int]], None] | None:
    """Whom to tell of offsets that are stored, None if nobody wants to know."""
    interceptors = config.interceptors
    if not interceptors:
        return None

    def committed(offsets: Mapping[TopicPartition, int]) -> None:
        for interceptor in interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:
                logger.exception("an interceptor has failed")

    return committed


def reading(config: ConsumerConfig) -> Reading | None:
    """What there is to do with records that are read, None if there is nothing."""
    if config.interceptors or config.key_deserializer or config.value_deserializer:
        return Reading(config)
    return None
