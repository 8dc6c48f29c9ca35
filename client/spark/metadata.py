"""The driver's requests to the cluster: topics, offsets, and commits of the query's progress.

Connects at the first request. Retries transient errors: Spark does not, so an error here ends the
query.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, TypeVar

from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.routing import Router
from ottla.client.fetching.offsets import list_offsets
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.group.administration import GroupAdmin
from ottla.client.process.environment import real_environment
from ottla.client.process.loop_thread import shared_loop
from ottla.client.records.committed import Committed
from ottla.client.settings.config import parse_addresses
from ottla.client.spark.errors import name_of
from ottla.client.spark.plan import Limits
from ottla.client.spark.reaching import reached
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID, TopicPartition, uuid_to_text
from ottla.wire.clock import TimeLimit
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from ottla.client.cluster.metadata import TopicView
    from ottla.client.spark.offsets import Offsets
    from ottla.client.spark.options import Options

    Topics = dict[str, TopicView]

Result = TypeVar("Result")
logger = logging.getLogger(__name__)

# How long topic metadata is reused: triggers may come many times a second.
TOPICS_AGE_MS = 1_000.0
# Commits are only informative and must not hold the query up.
COMMIT_MS = 3_000.0
COMMIT_PAUSE_MS = 30_000.0


class Metadata:
    """The cluster access of one query; its calls block."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._environment = real_environment()
        self._cluster: ClusterClient | None = None
        self._topics: Topics = {}
        self._topics_at_ms: float | None = None
        self._committed: tuple[str, Offsets] | None = None
        self._no_commit_before_ms = 0.0

    def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            _run(self._close(self._cluster))

    def topics(self, expected: Iterable[TopicPartition] = ()) -> Topics:
        """The topics to read, with their partitions. Named or ``expected`` topics that do not exist
        are missing from the result. Raises ClientError."""
        return _run(self._fresh_topics(set(expected)))

    def partitions(self, topics: Topics) -> list[TopicPartition]:
        """The partitions to read of these topics."""
        chosen = self._options.subscription.partitions
        found = [
            TopicPartition(name, number)
            for name, view in topics.items()
            for number in view.partitions
        ]
        return sorted(where for where in found if not chosen or where in chosen)

    def limits(self, partitions: Iterable[TopicPartition]) -> Limits:
        """The first and end offsets. Raises ClientError."""
        wanted = list(partitions)
        return Limits(self.firsts(wanted), self.lasts(wanted))

    def firsts(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets. Raises ClientError."""
        return self.at(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))

    def lasts(
        self,
        partitions: Iterable[TopicPartition],
        reached: Mapping[TopicPartition, int] | None = None,
    ) -> Offsets:
        """The end offsets. An end before ``reached`` is requested again: a new leader may not know
        yet how far its predecessor was. Raises ClientError."""
        return _run(self._lasts(list(partitions), reached or {}))

    def at(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """The first offsets at these times or later, -1 if there is none. Raises ClientError."""
        return _run(self._patiently(lambda: self._at(times)))

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Commit the query's progress, so that tools show its lag as a group; never raises."""
        now_ms = self._environment.clock.now_ms()
        if (group_id, offsets) == self._committed or now_ms < self._no_commit_before_ms:
            return
        try:
            _run(self._commit(group_id, offsets))
            self._committed = group_id, dict(offsets)
        except (ClientError, TimeoutError) as error:
            self._no_commit_before_ms = now_ms + COMMIT_PAUSE_MS
            logger.warning("the positions of group %r are not stored: %s", group_id, error)

    async def _router(self) -> Router:
        if self._cluster is None:
            options = self._options
            cluster = ClusterClient(
                self._environment, parse_addresses(options.servers), options.config
            )
            await reached(cluster.refresh, options.reach)
            self._cluster = cluster
        return Router(self._cluster)

    async def _close(self, cluster: ClusterClient) -> None:
        cluster.close()

    async def _patiently(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        for failures in range(1, self._options.attempts + 1):
            try:
                return await attempt()
            except ClientError as error:
                if not error.retriable or failures == self._options.attempts:
                    raise
                logger.warning("asking the cluster again: %s", error)
                await self._pause()
        raise AssertionError("unreachable")

    async def _pause(self) -> None:
        await self._environment.clock.sleep(self._options.retry_ms)

    async def _fresh_topics(self, expected: set[TopicPartition]) -> Topics:
        now_ms = self._environment.clock.now_ms()
        if self._topics_at_ms is None or now_ms - self._topics_at_ms >= TOPICS_AGE_MS:
            self._topics = await self._asked_topics(expected)
            self._topics_at_ms = now_ms
        return self._topics

    async def _asked_topics(self, expected: set[TopicPartition]) -> Topics:
        names = set(self._options.subscription.names or ())
        found: Topics = {}
        for failures in range(1, self._options.attempts + 1):
            found = await self._patiently(self._describe)
            known = {
                TopicPartition(name, number)
                for name, view in found.items()
                for number in view.partitions
            }
            if (names <= set(found) and expected <= known) or failures == self._options.attempts:
                break
            # A lagging or just started broker may not know all of them yet.
            await self._pause()
        return found

    async def _describe(self) -> Topics:
        router = await self._router()
        subscription = self._options.subscription
        names = subscription.names
        views = await router.repeated(lambda: router.cluster.describe(names), is_repeatable=True)
        found = {}
        for view in views:
            if names is None and (view.is_internal or not subscription.takes(view.name)):
                continue
            if view.error is ErrorCode.NONE:
                found[view.name] = view
            elif view.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                text = f"{view.error.text} (the option {subscription.option} asks for it)"
                raise RequestRefused(view.error, text, topic=view.name)
        return found

    async def _lasts(
        self, partitions: list[TopicPartition], reached: Mapping[TopicPartition, int]
    ) -> Offsets:
        wanted = dict.fromkeys(partitions, LATEST_TIMESTAMP)
        found: Offsets = {}
        for failures in range(1, self._options.attempts + 1):
            found = await self._patiently(lambda: self._at(wanted))
            behind = [where for where, last in found.items() if last < reached.get(where, 0)]
            if not behind or failures == self._options.attempts:
                break
            logger.warning("%s seems to have lost its end; asking again", name_of(behind[0]))
            await self._pause()
        return found

    async def _at(self, times: Mapping[TopicPartition, int]) -> Offsets:
        if not times:
            return {}
        answers = await list_offsets(await self._router(), times, self._options.config.isolation)
        found = {}
        for where, answer in answers.items():
            if isinstance(answer, ClientError):
                raise answer
            found[where] = answer.offset
        return found

    async def _commit(self, group_id: str, offsets: Offsets) -> None:
        router = await self._router()
        positions = {where: Committed(offset) for where, offset in offsets.items()}
        async with TimeLimit(self._environment.clock, COMMIT_MS):
            for failures in itertools.count(1):
                answers = await GroupAdmin(router).commit(group_id, positions)
                refused = [answer for answer in answers.values() if answer is not None]
                if not refused:
                    return
                if not refused[0].retriable:
                    raise refused[0]
                await router.cluster.pause(failures)


def ids_of(topics: Topics) -> dict[str, str]:
    """The topic ids as text, as checkpoints keep them; empty if the cluster has none."""
    return {name: id_of(view) for name, view in topics.items()}


def id_of(view: TopicView | None) -> str:
    """The topic id as text; empty if unknown."""
    if view is None or view.topic_id == ZERO_UUID:
        return ""
    return uuid_to_text(view.topic_id)


def _run(work: Coroutine[object, object, Result]) -> Result:
    return shared_loop().run(work)
