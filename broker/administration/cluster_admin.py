"""Changes to the cluster that clients ask for: topics, partitions, settings, producer ids.

Each call answers when the change has taken effect on this broker (its metadata shows it), or when
the time is up; REQUEST_TIMED_OUT means that the outcome is unknown, never that it failed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.broker.administration.config_writes import ConfigEdit, try_change
from ottla.broker.administration.partition_admin import TOLD_MS_MAX, PartitionAdmin, done_by
from ottla.coordinator.controller.events import CreatePartitions, CreateTopics, Event
from ottla.coordinator.controller.specs import PartitionsSpec as PartitionsSpec
from ottla.coordinator.controller.specs import TopicResult as TopicResult
from ottla.coordinator.controller.specs import TopicSpec as TopicSpec
from ottla.coordinator.metadata.image import Entity, MetadataImage
from ottla.coordinator.store.store import ConnectionLoss, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import ZERO_UUID, Uuid, is_usable_uuid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ottla.broker.administration.producer_ids import ProducerIds
    from ottla.broker.controlling.controller import ControllerCandidate
    from ottla.broker.membership.lifecycle import Lifecycle
    from ottla.broker.metadata.config_watch import ConfigWatch
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.protocol.ports import Clock, Random

_ATTEMPTS_MAX = 20
_NOT_HERE = "this broker is not the controller"
_UNKNOWN = "not completed in time; the change may still take effect"


class ClusterAdmin:
    """Owned by the server; handlers call it."""

    def __init__(
        self,
        controller: ControllerCandidate,
        lifecycle: Lifecycle,
        metadata: MetadataCache,
        configs: ConfigWatch,
        producer_ids: ProducerIds,
        clock: Clock,
        random: Random,
    ) -> None:
        # Elections, moves of replicas, and brokers that are about to stop.
        self.partitions = PartitionAdmin(controller, metadata, clock)
        self._controller = controller
        self._lifecycle = lifecycle
        self._metadata = metadata
        self._configs = configs
        self._producer_ids = producer_ids
        self._clock = clock
        self._random = random

    async def create_topics(
        self, specs: Sequence[TopicSpec], *, validate_only: bool, timeout_ms: float
    ) -> list[TopicResult]:
        """Make topics; each result says what became of that one. Names are distinct."""
        deadline_ms = self._clock.now_ms() + timeout_ms
        drawn = tuple(replace(spec, topic_id=self._draw_id()) for spec in specs)

        async def prepare() -> Event:
            return CreateTopics(drawn, validate_only)

        results = await self._ask([(spec.name, ZERO_UUID) for spec in specs], prepare, deadline_ms)
        if validate_only:
            return [replace(result, topic_id=ZERO_UUID) for result in results]
        seen = [await self._seen(result, _has_topic(result), deadline_ms) for result in results]
        await self._told(seen, deadline_ms)
        return seen

    async def delete_topics(
        self, topics: Sequence[str | Uuid], *, timeout_ms: float
    ) -> list[TopicResult]:
        """Delete topics by name or by id. Each of them is named once."""
        deadline_ms = self._clock.now_ms() + timeout_ms
        wanted = [self._name_and_id(topic) for topic in topics]
        known = [(name, topic_id) for name, topic_id in wanted if name is not None]
        current = self._controller.controllership

        async def prepare() -> Event:
            assert current is not None
            return await current.prepare_deletion(known)

        asked = await self._ask(known, prepare, deadline_ms) if known else []
        answers = iter(asked)
        results = []
        for name, topic_id in wanted:
            unknown = TopicResult("", ErrorCode.UNKNOWN_TOPIC_ID)
            result = unknown if name is None else next(answers)
            if topic_id != ZERO_UUID and result.error_code != ErrorCode.NONE:
                result = replace(result, topic_id=topic_id)
                if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    result = replace(result, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
            results.append(await self._seen(result, _lacks_topic(result), deadline_ms))
        await self._told(results, deadline_ms)
        return results

    async def create_partitions(
        self, specs: Sequence[PartitionsSpec], *, validate_only: bool, timeout_ms: float
    ) -> list[TopicResult]:
        """Raise numbers of partitions. Names are distinct."""
        deadline_ms = self._clock.now_ms() + timeout_ms

        async def prepare() -> Event:
            return CreatePartitions(tuple(specs), validate_only)

        results = await self._ask([(spec.name, ZERO_UUID) for spec in specs], prepare, deadline_ms)
        if validate_only:
            return results
        seen = [
            await self._seen(result, _has_partitions(result), deadline_ms) for result in results
        ]
        await self._told(seen, deadline_ms)
        return seen

    async def set_configs(self, entity_type: str, name: str, configs: Mapping[str, str]) -> None:
        """Replace all that is set for an entity, checked already. Raises KafkaError."""
        await self.change_configs(entity_type, name, lambda _current: configs)

    async def change_configs(
        self,
        entity_type: str,
        name: str,
        change: ConfigEdit,
    ) -> None:
        """Replace what is set for an entity by what the function makes of it.

        ``name``: of users, clients and ips the quoted one of ``coordinator/store/entities.py``.
        The function may be called again, if another broker changed the entity meanwhile; its
        exceptions pass through. Raises KafkaError."""
        entity = Entity(entity_type, name)
        try:
            for _attempt in range(_ATTEMPTS_MAX):
                if await try_change(self._lifecycle.session, entity, change):
                    await self._configs.refresh([entity])
                    return
        except ConnectionLoss as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, _UNKNOWN) from error
        except StoreError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "other clients keep changing these settings")

    async def allocate_producer_id(self) -> int:
        """One id that no producer ever had. Raises KafkaError."""
        return await self._producer_ids.allocate()

    async def _ask(
        self,
        topics: Sequence[tuple[str, Uuid]],
        prepare: Callable[[], Awaitable[Event]],
        deadline_ms: float,
    ) -> list[TopicResult]:
        """Let the controller decide; one result per topic, in their order."""
        current = self._controller.controllership
        if current is None:
            return _all(topics, ErrorCode.NOT_CONTROLLER, self._why_not_here())
        reply = current.ask(prepare)
        if not await done_by(reply, self._clock, deadline_ms):
            return _all(topics, ErrorCode.REQUEST_TIMED_OUT, _UNKNOWN)
        try:
            return list(reply.result())
        except KafkaError as error:
            return _all(topics, error.code, error.message)

    def _why_not_here(self) -> str:
        try:
            _ = self._lifecycle.session
        except KafkaError as error:
            # Of a controller elsewhere it would not hear, and the others may be as it is.
            return f"{_NOT_HERE}: it has {error.message}"
        return _NOT_HERE

    async def _seen(
        self,
        result: TopicResult,
        holds: Callable[[MetadataImage], bool],
        deadline_ms: float,
    ) -> TopicResult:
        """The result, once it shows here, or that this was not seen in time."""
        if result.error_code is not ErrorCode.NONE:
            return result
        if await self._metadata.wait_for(holds, deadline_ms - self._clock.now_ms()):
            return result
        return replace(result, error_code=ErrorCode.REQUEST_TIMED_OUT, message=_UNKNOWN)

    async def _told(self, results: Sequence[TopicResult], deadline_ms: float) -> None:
        """Wait a moment for the other brokers to hear of it, too: clients ask any of them next."""
        current = self._controller.controllership
        if current is None or all(one.error_code is not ErrorCode.NONE for one in results):
            return
        until_ms = min(deadline_ms, self._clock.now_ms() + TOLD_MS_MAX)
        for future in current.told():
            await done_by(future, self._clock, until_ms)

    def _name_and_id(self, topic: str | Uuid) -> tuple[str | None, Uuid]:
        """The name is None if no topic has that id."""
        if isinstance(topic, str):
            return topic, ZERO_UUID
        return self._metadata.topic_name(topic), topic

    def _draw_id(self) -> Uuid:
        while True:
            drawn = self._random.token(16)
            if is_usable_uuid(drawn):
                return drawn


def _all(
    topics: Sequence[tuple[str, Uuid]], error_code: ErrorCode, message: str
) -> list[TopicResult]:
    return [TopicResult(name, error_code, message, topic_id=topic_id) for name, topic_id in topics]


def _has_topic(result: TopicResult) -> Callable[[MetadataImage], bool]:
    return lambda image: result.topic_id in image.names


def _lacks_topic(result: TopicResult) -> Callable[[MetadataImage], bool]:
    return lambda image: result.topic_id not in image.names


def _has_partitions(result: TopicResult) -> Callable[[MetadataImage], bool]:
    def holds(image: MetadataImage) -> bool:
        name = image.names.get(result.topic_id)
        # A topic that was deleted meanwhile will never show them.
        return name is None or len(image.topics[name].partitions) >= result.partition_count

    return holds
