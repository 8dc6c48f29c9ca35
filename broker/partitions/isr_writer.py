"""Writes ISR changes of all partitions led here into the store, and announces them.

    the store's answer                      the leader
    applied                                 uses the new set and informs the controller
    refused, state unchanged                (an added broker has restarted) keeps the old set
    refused, state equals the new one       (the answer was lost) uses the new set (R-15)
    refused, other state of this epoch      (the controller wrote it) uses that set
    another leader or leader epoch          resigns, and waits for the controller (R-16)
    another topic of that name              the same: its state may have the same version
    no answer, or the connection is lost    unknown: keeps it pending and tries again (R-13)

A retry is safe: the write names the version that it replaces, so it is applied at most once, and
after a refusal the state shows whether an earlier attempt was applied. Each change has its own
task, so that a slow store does not make one partition wait for another.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ottla.broker.engine.log_summary import IsrChangeSummary
from ottla.broker.replica.isr import ChangeOutcome
from ottla.broker.replica.progress import UNKNOWN_BROKER_EPOCH
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import (
    Check,
    GroupFailed,
    NoNode,
    Replace,
    SessionState,
    Stat,
    StoreError,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.replica.isr import IsrChange
    from ottla.broker.replica.leading import Leading
    from ottla.coordinator.store.paths import StatePayload
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ids import TopicPartition, Uuid
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.isr")

# Changes within this time are announced together.
ANNOUNCE_AFTER_MS = 50.0
RETRY_MS = 200.0
# A znode of the store holds at most a megabyte.
ANNOUNCED_AT_ONCE = 2_000
TOPICS_KNOWN_MAX = 1_000


class LedPartitions(Protocol):
    """The partitions of this broker."""

    def __iter__(self) -> Iterator[PartitionRuntime]: ...


class _Attempt(NamedTuple):
    """One pending change of one leadership."""

    partition: PartitionRuntime
    leading: Leading
    change: IsrChange

    def is_over(self) -> bool:
        """Whether the leadership of the change has ended."""
        return self.partition.replica.leading is not self.leading


class IsrWriter:
    """Owned by the server. It follows the broker's lifecycle, and writes only in its sessions."""

    def __init__(
        self,
        partitions: LedPartitions,
        metadata: MetadataCache,
        clock: Clock,
        tasks: Tasks,
        lag_time_max_ms: float,
    ) -> None:
        self._partitions = partitions
        self._metadata = metadata
        self._clock = clock
        self._tasks = tasks
        self._check_ms = lag_time_max_ms / 2
        self._session: MetadataSession | None = None
        self._has_session = asyncio.Event()
        self._unannounced: dict[TopicPartition, None] = {}
        self._announces = False
        self._news = IsrChangeSummary()
        self._topic_ids = _TopicIds()
        self.shrink_count = 0
        self.expand_count = 0

    # ---- the session ----

    async def begin(self, session: MetadataSession) -> None:
        """The broker has registered in this session, or has connected in it again."""
        self._session = session
        self._has_session.set()
        self.check()

    async def end(self) -> None:
        """Stop writing while the session is in doubt."""
        self._session = None
        self._has_session.clear()

    async def _connected(self) -> MetadataSession:
        while True:
            await self._has_session.wait()
            session = self._session
            if session is not None and session.state is SessionState.CONNECTED:
                return session
            # The broker's lifecycle has not learned of it yet.
            await self._clock.sleep(RETRY_MS)

    # ---- finding changes ----

    async def run(self) -> None:
        """Check periodically for followers that lag, until cancelled."""
        while True:
            await self._clock.sleep(self._check_ms)
            self.check()

    def check(self) -> None:
        """Check every partition that is led here.

        At rest that is cheap: no method is called for a partition whose in-sync followers all have
        the leader's log end."""
        for partition in self._partitions:
            replica = partition.replica
            leading = replica.leading
            if leading is None or not leading.followers:
                continue
            end, in_sync = replica.log_end_offset, leading.in_sync
            if in_sync.pending is None and not in_sync.eligible_leaders:
                missing = 1 + len(leading.followers) - len(in_sync.committed)
                if missing == 0 and replica.high_watermark == end:
                    for follower in leading.followers.values():
                        if follower.log_end_offset != end:
                            break
                    else:
                        continue
            self.look_at(partition)

    def look_at(self, partition: PartitionRuntime, asking: int | None = None) -> None:
        """Start the ISR change that is due for the partition, if any. Never waits.

        ``asking``: the follower whose fetch is being handled, the only one that may join."""
        replica = partition.replica
        leading = replica.leading
        if self._session is None or leading is None or not partition.is_open:
            return
        now_ms = self._clock.now_ms()
        # Followers outside the ISR are waited for only while they keep up.
        if replica.maybe_raise_watermark(now_ms):
            partition.wake_waiters()
        change = leading.propose(
            replica.high_watermark,
            replica.log_end_offset,
            now_ms,
            asking if self._may_add(leading, asking) else None,
        )
        if asking is None:
            self._invite(partition, leading)
        if change is not None:
            attempt = _Attempt(partition, leading, change)
            self._tasks.spawn(f"isr of {partition.partition}", self._carry_out(attempt))

    def _invite(self, partition: PartitionRuntime, leading: Leading) -> None:
        """Answer the waiting fetches of followers that could join: they join with their next fetch,
        which would otherwise come seconds later."""
        high_watermark = partition.replica.high_watermark
        able = [node for node in leading.followers if leading.may_join(node, high_watermark)]
        for node in able:
            leading.followers[node].hurry()
        if able:
            partition.wake_waiters()

    def _may_add(self, leading: Leading, asking: int | None) -> bool:
        """Whether the follower's broker is registered and sends its broker epoch, which the store
        checks: the image does not say which incarnation is alive."""
        follower = None if asking is None else leading.followers.get(asking)
        return (
            follower is not None
            and follower.broker_epoch != UNKNOWN_BROKER_EPOCH
            and asking in self._metadata.image.brokers
        )

    # ---- writing ----

    async def _carry_out(self, attempt: _Attempt) -> None:
        """Write until the outcome is known, or another broker leads."""
        while not attempt.is_over():
            session = await self._connected()
            if attempt.is_over():
                return
            try:
                if await self._try(session, attempt):
                    return
            except StoreError as error:
                # Applied, not applied or not sent: it stays pending.
                attempt.leading.on_answer(attempt.change, ChangeOutcome.UNKNOWN)
                logger.info("isr of %s-%d: %s", *attempt.partition.partition, error)
                await self._clock.sleep(RETRY_MS)

    async def _try(self, session: MetadataSession, attempt: _Attempt) -> bool:
        """Write once; return whether the outcome is known. Raises StoreError if it is not."""
        partition, leading, change = attempt
        state_path = paths.state(*partition.partition)
        payload = paths.StatePayload(
            leading.leadership.leader,
            change.leader_epoch,
            change.isr,
            leading.leadership.controller_epoch,
            eligible_leaders=change.eligible_leaders,
        )
        topic = await self._topic_ids.check(session, partition)
        if topic is None:
            self._give_up(attempt, "its topic no longer exists")
            return True
        checks = [Check(paths.generation(node), epoch) for node, epoch in change.added]
        write = Replace(state_path, paths.build_state(payload), change.partition_epoch)
        try:
            results = await session.multi([topic, *checks, write])
        except GroupFailed as failed:
            if failed.index == 0:
                # The topic was deleted, or its replicas are being moved: read again.
                return False
            try:
                stored = await session.get(state_path)
            except NoNode:
                # The topic is being deleted.
                self._settle(attempt, ChangeOutcome.REFUSED)
                return True
            found = paths.parse_state(stored.data)
            return self._compare(attempt, payload, found, stored.stat.version)
        stat = results[-1]
        assert isinstance(stat, Stat)
        self._settle(attempt, ChangeOutcome.APPLIED, stat.version)
        return True

    def _compare(
        self, attempt: _Attempt, wanted: StatePayload, found: StatePayload | None, version: int
    ) -> bool:
        """Read the state in the store after a refused write."""
        partition, leading, change = attempt
        if attempt.is_over():
            return True
        if version == change.partition_epoch:
            # A replica to be added has restarted since it fetched.
            self._settle(attempt, ChangeOutcome.REFUSED)
        elif (
            found is None
            or found.leader != wanted.leader
            or found.leader_epoch != wanted.leader_epoch
        ):
            self._give_up(attempt, "it has another leader or a new leader epoch")
        elif (found.isr, found.eligible_leaders) == (wanted.isr, wanted.eligible_leaders):
            self._settle(attempt, ChangeOutcome.APPLIED, version)
        else:
            stored = replace(
                leading.leadership,
                isr=found.isr,
                partition_epoch=version,
                eligible_leaders=found.eligible_leaders,
                controller_epoch=found.controller_epoch,
            )
            partition.replica.become_leader(stored, self._clock.now_ms())
            self._settle(attempt, ChangeOutcome.REFUSED)
        return True

    def _give_up(self, attempt: _Attempt, reason: str) -> None:
        """Resign: the leadership here does not match the store."""
        if not attempt.is_over():
            partition = attempt.partition
            logger.warning("%s-%d: %s; waiting for the controller", *partition.partition, reason)
            partition.resign()

    def _settle(
        self, attempt: _Attempt, outcome: ChangeOutcome, version: int | None = None
    ) -> None:
        """Apply a known outcome to the leader."""
        partition, leading, change = attempt
        if attempt.is_over():
            return
        before = leading.in_sync.committed
        leading.on_answer(change, outcome, version)
        if outcome is ChangeOutcome.APPLIED:
            self.expand_count += bool(change.added)
            self.shrink_count += len(change.isr) < len(before) and not change.added
            logger.debug(
                "isr of %s-%d: %s, was %s", *partition.partition, list(change.isr), list(before)
            )
            self._news.add(partition.partition, before, change.isr)
            self._announce(partition.partition)
        # A smaller ISR can complete waiting produces, or fail them below min.insync.replicas.
        partition.replica.maybe_raise_watermark(self._clock.now_ms())
        partition.wake_waiters()

    # ---- announcing ----

    def _announce(self, partition: TopicPartition) -> None:
        self._unannounced[partition] = None
        if not self._announces:
            self._announces = True
            self._tasks.spawn("isr announcements", self._announce_all())

    async def _announce_all(self) -> None:
        """Announce the changed states to the controller; repetition is harmless."""
        try:
            while self._unannounced:
                await self._clock.sleep(ANNOUNCE_AFTER_MS)
                self._tell_news()
                session = await self._connected()
                told = list(self._unannounced)[:ANNOUNCED_AT_ONCE]
                # States that change during the announcement are announced again.
                for partition in told:
                    del self._unannounced[partition]
                if not await _announced(session, told):
                    self._unannounced.update(dict.fromkeys(told))
        finally:
            self._announces = False

    def _tell_news(self) -> None:
        joined, left = self._news.take()
        for sentence in joined:
            logger.info("%s", sentence)
        for sentence in left:
            logger.warning("%s", sentence)


class _TopicIds:
    """Topic ids by the bytes of their znodes. Parsing a topic of thousands of partitions takes
    milliseconds, and all of them may change their ISR at once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, Uuid | None]] = {}

    async def check(self, session: MetadataSession, partition: PartitionRuntime) -> Check | None:
        """Return the condition that the topic is still the partition's own; None if it is not.

        A topic that was deleted and created again has states with the same versions (C-22)."""
        name, own = partition.partition.topic, partition.log.topic_id
        path = paths.topic(name)
        try:
            found = await session.get(path)
        except NoNode:
            self._known.pop(name, None)
            return None
        stored = self._id_in(name, found.data)
        if own is not None and stored not in (None, own):
            return None
        return Check(path, found.stat.version)

    def _id_in(self, name: str, data: bytes) -> Uuid | None:
        known = self._known.get(name)
        if known is None or known[0] != data:
            payload = paths.parse_topic(data)
            known = data, None if payload is None else payload.topic_id
            if len(self._known) >= TOPICS_KNOWN_MAX:
                self._known.clear()
            self._known[name] = known
        return known[1]


async def _announced(session: MetadataSession, changed: Iterable[TopicPartition]) -> bool:
    try:
        await session.create(
            paths.ISR_CHANGE_PREFIX, paths.build_partition_list(changed), sequential=True
        )
    except StoreError as error:
        logger.info("changes of the isr are not announced yet: %s", error)
        return False
    return True
