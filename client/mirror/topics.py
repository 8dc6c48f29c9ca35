"""Finds the topics to copy, and creates them on the target."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cluster.all_brokers import certain_ids
from ottla.client.cluster.config_requests import ResourceType
from ottla.client.mirror.errors import MirrorError
from ottla.client.mirror.plan import COPIED_CONFIGS, two_into_one, work
from ottla.client.mirror.selection import Circle, selected
from ottla.protocol.configs import ConfigSource
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID, uuid_to_text
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from ottla.client.admin import Admin
    from ottla.client.mirror.settings import MirrorSettings, MirrorSource
    from ottla.protocol.ids import Uuid

logger = logging.getLogger(__name__)


class Copied(NamedTuple):
    """The topics to copy: for each source topic its name on the target, its partition count on the
    source, and its id there, empty if the cluster has no ids."""

    names: dict[str, str]
    counts: dict[str, int]
    ids: dict[str, str]


class TopicSync:
    """Selects and prepares the topics of one source. ``from_target`` are its topics that other
    mirrors fill from the target."""

    def __init__(
        self, settings: MirrorSettings, source: MirrorSource, target: Admin, from_target: Set[str]
    ) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._from_target = from_target

    async def prepare(self, source_admin: Admin) -> Copied:
        """Create topics and partitions on the target until all selected topics can be copied.
        Raises MirrorError and the errors of both clusters' administration."""
        views = {
            view.name: view
            for view in await source_admin.list_topics()
            if not view.is_internal and view.partitions
        }
        names = self._select(views)
        counts = {topic: views[topic].partition_count for topic in names}
        there = {view.name: view.partition_count for view in await self._target.list_topics()}
        wanted = {target: counts[topic] for topic, target in names.items()}
        todo = work(wanted, there, may_grow=self._settings.grow)
        for target, (has, needed) in todo.too_few.items():
            raise MirrorError(
                f"topic {target!r} of the target has {has} partitions, and {needed} are needed for "
                f"those of {self._source.alias}: give it more, or allow the mirror to"
            )
        of_target = {target: topic for topic, target in names.items()}
        for target, count in todo.create.items():
            configs = await copied_configs(source_admin, of_target[target])
            await self._create(NewTopic(target, count, self._settings.replication_factor, configs))
        for target, count in todo.grow.items():
            await self._grow(target, count)
        return Copied(names, counts, {topic: id_text(views[topic].topic_id) for topic in names})

    def _select(self, views: Iterable[str]) -> dict[str, str]:
        alias = self._source.alias
        try:
            names = selected(
                self._source, sorted(views), self._from_target, is_marked=self._settings.mark
            )
        except Circle as circle:
            raise MirrorError(
                f"topic {circle.topic!r} of {alias} is copied there from the target, so its records"
                " would be copied back and forth endlessly: rename topics, or mark records "
                "in both mirrors"
            ) from circle
        both = two_into_one(names)
        if both is not None:
            raise MirrorError(f"topics {both[0]!r} and {both[1]!r} of {alias} would become one")
        return names

    async def _create(self, topic: NewTopic) -> None:
        try:
            await self._target.create_topic(topic)
        except RequestRefused as error:
            # Another source's link may have created it first, also with fewer partitions: the next
            # check of the target finds out.
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        else:
            logger.info("created topic %s, partitions: %d", topic.name, topic.partition_count)

    async def _grow(self, target: str, count: int) -> None:
        try:
            await self._target.create_partitions(target, count)
        except RequestRefused as error:
            if error.code is ErrorCode.INVALID_PARTITIONS:
                # Another link has just done it.
                return
            if error.retriable:
                raise
            raise MirrorError(
                f"topic {target!r} of the target needs {count} partitions: {error}"
            ) from error
        logger.info("topic %s of the target has %d partitions now", target, count)


def id_text(topic_id: Uuid) -> str:
    """The topic id as text; empty if the cluster has none."""
    return "" if topic_id == ZERO_UUID else uuid_to_text(topic_id)


async def certain(source: Admin, copied: Copied) -> Copied:
    """The topics with the ids that most brokers of the source agree on: a single lagging broker
    could report a deleted topic of the same name. Raises RequestRefused as long as they do not
    agree."""
    if not any(copied.ids.values()):
        return copied
    ids = await certain_ids(source._cluster, copied.names)
    return copied._replace(ids={topic: id_text(topic_id) for topic, topic_id in ids.items()})


async def copied_configs(admin: Admin, topic: str) -> dict[str, str]:
    """The topic configs that a copy inherits. Raises RequestRefused."""
    entries = await admin.describe_configs(ResourceType.TOPIC, topic, sorted(COPIED_CONFIGS))
    return {
        entry.name: entry.value
        for entry in entries
        if entry.source is ConfigSource.TOPIC and entry.value is not None
    }
