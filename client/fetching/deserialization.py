"""Applies a consumer's deserializers and interceptors to records before the application gets them.

Created only if the configuration has some, so that other consumers pay for one comparison with
None.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ottla.client.process.errors import DeserializationFailed
from ottla.client.records.serializers import PerTopic
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.client.records.consumer_record import ConsumerRecord
    from ottla.client.settings.config import ConsumerConfig

logger = logging.getLogger(__name__)


class Reading:
    """Applies the configured deserializers and interceptors. Owned by one consumer."""

    __slots__ = ("_interceptors", "_key", "_value")

    def __init__(self, config: ConsumerConfig) -> None:
        self._interceptors = config.interceptors
        self._key = PerTopic(config.key_deserializer) if config.key_deserializer else None
        self._value = PerTopic(config.value_deserializer) if config.value_deserializer else None

    def read(
        self, records: list[ConsumerRecord]
    ) -> tuple[list[ConsumerRecord[Any, Any]], DeserializationFailed | None]:
        """Return the records up to the first that cannot be deserialized, and its error."""
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
        """Return what the interceptors make of the records."""
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
    """Return the callback for stored offsets, None if there are no interceptors."""
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
    """Return the configured deserializers and interceptors, None if there are none."""
    if config.interceptors or config.key_deserializer or config.value_deserializer:
        return Reading(config)
    return None
