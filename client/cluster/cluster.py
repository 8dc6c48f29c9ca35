"""A client's view of the cluster: bootstrap, metadata cache and its refreshes.

Any reachable broker will do for the bootstrap (requirement NET-37). The cache is refreshed when it
is older than ``metadata_max_age_ms``, after an error that says it is stale, and for topics that are
not in it; concurrent refreshes share one request.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import TYPE_CHECKING

from ottla.client.cluster.auto_creation import advice_on_missing, makes_topics
from ottla.client.cluster.metadata import NEWS_MS, ClusterMetadata, TopicView
from ottla.client.records.arguments import check_text, check_topic
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.wire.api import declare
from ottla.wire.clock import CallLimit, reaching
from ottla.wire.errors import BrokerUnreachable, RequestRefused, TransportError
from ottla.wire.negotiation import connect
from ottla.wire.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ottla.client.process.environment import Environment
    from ottla.client.settings.config import ClientConfig
    from ottla.protocol.ports import Address, Random
    from ottla.wire.connection import Connection

# From this version on a request can forbid the creation of missing topics.
AUTO_CREATE_VERSION = 4
BROKERS_ASKED_MAX = 3
# After this many consecutive requests to one broker, each soon after the last, another one is
# asked: the first may have missed an election, and would keep giving the same answer.
ASKED_IN_VAIN_MAX = 5
SOON_MS = 5_000
METADATA = declare(ApiKey.METADATA, MetadataRequest, MetadataResponse, 1)
TOPIC_ERRORS_THAT_PASS = frozenset(
    {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND, ErrorCode.REPLICA_NOT_AVAILABLE}
)


class ClusterClient:
    """Metadata and connections of one client. Owns its pool; ``close`` it in the end."""

    def __init__(
        self, environment: Environment, bootstrap: list[Address], config: ClientConfig
    ) -> None:
        assert bootstrap
        self.environment = environment
        self.config = config
        self.metadata = ClusterMetadata()
        net, clock, random = environment
        self.pool = Pool(net, clock, random.child("pool"), config)
        self._bootstrap = bootstrap
        self._random = random.child("cluster")
        self._topics: set[str] = set()
        self._refreshing = asyncio.Lock()
        # The loop of the first call.
        self._loop: asyncio.AbstractEventLoop | None = None
        # Counts refreshes; a caller that waited for the lock sees whether a later one is done.
        self._round = 0
        # When all followed topics were last looked up.
        self._refreshed_ms: float | None = None
        # Until when the cache may be used without a refresh; minus infinity if it is stale.
        self.fresh_until_ms = -math.inf
        self._is_stale = True
        # Whether the request under way was sent because the cache was stale: until its answer is
        # there, ``fresh_until_ms`` does not tell that the cache may lack a topic.
        self._is_awaited = False
        # How often each broker was asked in refreshes soon after one another.
        self._asked: Counter[int] = Counter()
        self._asked_ms = 0.0
        # Whether the brokers create topics, as last reported when a topic was missing.
        self._makes_topics = False
        # Of the last AuthenticationFailed: whether no broker was merely down. One that refuses a
        # client, such as one with a wrong certificate, must not end the calls of a client that
        # others will accept when they are there again.
        self.all_refuse = True

    def check_loop(self) -> None:
        """Raise RuntimeError in another loop than the first call's: it would wait for ever."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            state = "has been closed" if self._loop.is_closed() else "is another one"
            raise RuntimeError(
                "a client is used and closed in the event loop that it was started in, which "
                f"{state}: make a client in each loop"
            )

    def close(self) -> None:
        """Close every connection."""
        self.pool.close()

    def mark_stale(self) -> None:
        """Refresh before the next use: an answer contradicted the cache."""
        self._set_stale(True)

    def _set_stale(self, is_stale: bool) -> None:
        self._is_stale = is_stale
        if is_stale or self._refreshed_ms is None:
            self.fresh_until_ms = -math.inf
        else:
            self.fresh_until_ms = self._refreshed_ms + self.config.metadata_max_age_ms

    @property
    def is_stale(self) -> bool:
        """Whether the cache should be refreshed before it is used."""
        return self.environment.clock.now_ms() > self.fresh_until_ms

    def follow(self, topics: Iterable[str]) -> None:
        """Keep these topics in the cache from now on."""
        for topic in topics:
            if topic not in self._topics:
                self._topics.add(topic)
                if topic not in self.metadata.topics:
                    self.mark_stale()

    def unfollow(self, topics: Iterable[str]) -> None:
        """Remove these topics from the cache."""
        for topic in topics:
            self._topics.discard(topic)
            self.metadata.topics.pop(topic, None)

    def in_time(self, left_ms: float | None = None) -> CallLimit:
        """Limit an ``async with`` block to ``call_timeout_ms``, or to ``left_ms``.

        At the limit it raises a TransportError. Raises as ``check_loop``."""
        self.check_loop()
        call_ms = self.config.call_timeout_ms
        if left_ms is None:
            left_ms = call_ms
        return CallLimit(self.environment.clock, left_ms, call_ms, self._bootstrap[0])

    async def refresh(self, left_ms: float | None = None, *, if_stale: bool = False) -> None:
        """Ask one broker for the followed topics. Raises ClientError if none answers within the
        time of a call, or within ``left_ms``.

        With ``if_stale`` a refresh that was under way and leaves the cache fresh is enough."""
        before = self._round
        async with self.in_time(left_ms), self._refreshing:
            if not self.is_stale if if_stale else self._round > before and not self._is_stale:
                return
            self._round += 1
            now_ms = self.environment.clock.now_ms()
            if now_ms - self._asked_ms > SOON_MS:
                self._asked.clear()
            await self._ask(sorted(self._topics), self.config.allow_auto_create)
            self._asked_ms = self.environment.clock.now_ms()

    async def refresh_if_stale(self) -> None:
        """Refresh if the cache is stale; wait if a refresh of the stale cache is under way."""
        if self.is_stale or self._is_awaited:
            await self.refresh(if_stale=True)

    async def describe(self, names: list[str] | None) -> list[TopicView]:
        """Return the cluster's current view of these topics, or of all, sorted by name.

        A topic that does not exist is in the result, with its error; this call creates none."""
        for name in names or ():
            check_text("a topic", name)
        async with self.in_time(), self._refreshing:
            response = await self._ask(names, False)
        found = {topic.name for topic in response.topics if topic.name is not None}
        return [self.metadata.topics[name] for name in sorted(found)]

    async def topic(self, name: str) -> TopicView:
        """Return a topic that has leaders; wait for elections, and for a broker that knows it.

        Raises RequestRefused, for instance with UNKNOWN_TOPIC_OR_PARTITION, or TransportError."""
        known = self.metadata.topics.get(name)
        if known is not None and known.available:
            return known
        check_topic(name)
        self.follow([name])
        clock = self.environment.clock
        begun_ms = clock.now_ms()
        deadline_ms = begun_ms + self.config.call_timeout_ms
        failure: TransportError | RequestRefused | None = None
        for failures in range(1, 2**31):
            self.mark_stale()
            try:
                await self.refresh(deadline_ms - clock.now_ms())
            except TransportError as error:
                is_final = not error.retriable and self.all_refuse
                may_pass = not is_final and self.metadata.updated_ms is not None
                if failure is None or clock.now_ms() < deadline_ms:
                    # An earlier answer says more than this timeout.
                    failure = error
            else:
                found = usable(self.metadata.topics.get(name))
                if isinstance(found, TopicView):
                    return found
                may_pass = await self._may_pass(found, clock.now_ms() - begun_ms)
                advice = None
                if found is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    advice = advice_on_missing(self.config, may_pass=may_pass)
                failure = RequestRefused(found, advice, topic=name)
            if may_pass:
                await self.pause(failures, deadline_ms)
            if not may_pass or clock.now_ms() >= deadline_ms:
                self.unfollow([name])
                raise failure
        raise AssertionError("unreachable")

    async def _may_pass(self, code: ErrorCode, waited_ms: float) -> bool:
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # A broker that creates topics on demand answers this once or twice meanwhile, and so
            # does, for some milliseconds, one that does not know yet what another broker has
            # created.
            if waited_ms < NEWS_MS:
                return True
            if not self._makes_topics and self.config.allow_auto_create:
                self._makes_topics = await self._ask_for_making()
            return self._makes_topics
        return code in TOPIC_ERRORS_THAT_PASS

    async def _ask_for_making(self) -> bool:
        try:
            async with self.in_time():
                connection = await self.any_connection()
                node_id = self.pool.node_of(connection)
                return node_id is None or await makes_topics(connection, node_id)
        except TransportError:
            return True

    async def pause(self, failures: int, deadline_ms: float | None = None) -> None:
        """Back off after that many failures in a row, but not beyond the deadline."""
        delay_ms = self.config.retry_backoff.delay_ms(failures, self._random.random())
        clock = self.environment.clock
        if deadline_ms is not None:
            delay_ms = min(delay_ms, max(deadline_ms - clock.now_ms(), 0.0))
        await clock.sleep(delay_ms)

    async def any_connection(self, doubted: Collection[int] = ()) -> Connection:
        """Return a connection to some broker of the cluster, an existing one if possible.

        A ``doubted`` broker, whose last answers were of no use, is used only if no other can be
        reached. Raises BrokerUnreachable if no known broker can be reached; if none is known, and
        after a failure, ``refresh`` restarts from the bootstrap addresses. Called within
        ``in_time``."""
        if doubted:
            connection = await self._connection_to_another(doubted)
            if connection is not None:
                return connection
        connected = self.pool.connected()
        if connected:
            node_id = connected[self._random.below(len(connected))]
            return await self.pool.connection(node_id)
        if not self.metadata.brokers:
            await self.refresh()
        failure: BrokerUnreachable | None = None
        all_refuse = True
        for node_id in shuffled(self._random, sorted(self.metadata.brokers)):
            if not self.pool.knows(node_id):
                # It has left the cluster while others were tried.
                continue
            try:
                return await self.pool.connection(node_id)
            except BrokerUnreachable as error:
                failure = _weightier(failure, error)
                all_refuse = all_refuse and not error.retriable
        self.mark_stale()
        self.all_refuse = all_refuse
        assert failure is not None, "the first of them was known"
        raise failure

    async def _connection_to_another(self, doubted: Collection[int]) -> Connection | None:
        others = [node_id for node_id in self.metadata.brokers if node_id not in doubted]
        # Connected brokers first, and none whose last connection attempts failed.
        ordered = sorted(
            shuffled(self._random, sorted(others)),
            key=lambda node_id: self.pool.ready(node_id) is None,
        )
        for node_id in ordered:
            if self.pool.knows(node_id) and not self.pool.is_failing(node_id):
                try:
                    return await self.pool.connection(node_id)
                except BrokerUnreachable:
                    continue
        return None

    async def _connection_to_ask(self) -> Connection:
        """As ``any_connection``, or else a connection to a bootstrap address."""
        all_refuse = True
        if self.metadata.brokers:
            doubted = [node for node, count in self._asked.items() if count >= ASKED_IN_VAIN_MAX]
            if doubted:
                self._asked.clear()
            try:
                return await self.any_connection(doubted)
            except BrokerUnreachable:
                # All known brokers are gone, or have moved: restart from the bootstrap addresses.
                all_refuse = self.all_refuse
        failure: BrokerUnreachable | None = None
        net, clock, _ = self.environment
        for index in shuffled(self._random, list(range(len(self._bootstrap)))):
            try:
                reaching(self._bootstrap[index])
                return await connect(net, clock, self._bootstrap[index], self.config)
            except BrokerUnreachable as error:
                failure = _weightier(failure, error)
                all_refuse = all_refuse and not error.retriable
        assert failure is not None
        self.all_refuse = all_refuse
        raise failure

    async def _ask(self, topics: list[str] | None, auto_create: bool) -> MetadataResponse:
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(wanted, allow_auto_topic_creation=auto_create)
        # An answer about other topics leaves the followed ones as old as they are.
        is_of_all = topics is None or self._topics.issubset(topics)
        if is_of_all:
            self._is_awaited = self.is_stale
            # Cleared first: an error found during the request counts again.
            self._set_stale(False)
        try:
            for left in reversed(range(BROKERS_ASKED_MAX)):
                try:
                    response = await self._ask_one(request)
                    break
                except BrokerUnreachable:
                    raise
                except TransportError:
                    # This broker failed during the request; another may answer.
                    if not left:
                        raise
        except BaseException:
            self.mark_stale()
            raise
        finally:
            self._is_awaited = False
        if is_of_all:
            self._refreshed_ms = self.environment.clock.now_ms()
            self._set_stale(self._is_stale)
        return response

    async def _ask_one(self, request: MetadataRequest) -> MetadataResponse:
        connection = await self._connection_to_ask()
        try:
            if connection.version_of(METADATA) < AUTO_CREATE_VERSION:
                # Older versions cannot forbid the creation of a topic.
                request.allow_auto_topic_creation = True
            response = await connection.send(METADATA, request)
            if response.error_code != ErrorCode.NONE:
                code = error_code(response.error_code)
                raise RequestRefused(code, broker=str(connection.address))
            self._learn(response, connection)
            if (node_id := self.pool.node_of(connection)) is not None:
                self._asked[node_id] += 1
        finally:
            if not self.pool.holds(connection):
                connection.close("only needed to find the brokers")
        return response

    def _learn(self, response: MetadataResponse, connection: Connection) -> None:
        before = set(self.metadata.brokers)
        self.metadata.apply(response, self.environment.clock.now_ms())
        for node_id, broker in self.metadata.brokers.items():
            self.pool.set_address(node_id, broker.address)
            if broker.address == connection.address:
                # The bootstrap connection turns out to be this broker's.
                self.pool.adopt(node_id, connection)
        for node_id in before - set(self.metadata.brokers):
            self.pool.forget(node_id)


def shuffled(random: Random, numbers: list[int]) -> list[int]:
    """The same numbers in a random order, in place."""
    for last in range(len(numbers) - 1, 0, -1):
        other = random.below(last + 1)
        numbers[last], numbers[other] = numbers[other], numbers[last]
    return numbers


def usable(view: TopicView | None) -> TopicView | ErrorCode:
    """Return the topic, or the reason why it cannot be used yet."""
    if view is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if view.available and view.error is ErrorCode.NONE:
        return view
    return view.error or ErrorCode.LEADER_NOT_AVAILABLE


def _weightier(before: BrokerUnreachable | None, error: BrokerUnreachable) -> BrokerUnreachable:
    """Of two brokers' failures the one to tell: a refusal by one that is there, which stays."""
    return error if before is None or before.retriable else before
