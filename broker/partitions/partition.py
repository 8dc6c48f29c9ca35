"""One partition on this broker: its replica state machine, its log and its parked requests.

It is the only writer of its log; reading.py reads. Changes of state contain no ``await``: the
machine decides, the log writes, and the machine is updated, with no step in between (hazard P-03).
HOT: ``append``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.engine.purgatory import WaitKey
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.broker.partitions.append_outcome import (
    NOTHING,
    AppendOutcome,
    appended,
    judge_producer,
    refused,
)
from ottla.broker.partitions.lease import Lease, endless_lease
from ottla.broker.partitions.traffic import Traffic
from ottla.broker.replica.append import AppendPlan, AppendTime, judge_produced
from ottla.broker.replica.fetching import FetchVerdict
from ottla.broker.replica.producer import AppendAction
from ottla.broker.replica.refusals import Refusals
from ottla.broker.replica.transaction_ages import TransactionAges
from ottla.broker.replica.watermark import FetchIsolation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import MAGIC, NO_PRODUCER_ID, RecordBatch, parse_batch
from ottla.protocol.records.control import encode_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.broker.metadata.topic_settings import TopicSettings
    from ottla.broker.replica.leading import PartitionLeadership
    from ottla.broker.replica.partition import Replica
    from ottla.broker.replica.progress import FollowerFetch
    from ottla.broker.replica.roles import RoleChange
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Buffer, Clock
    from ottla.protocol.records.control import TransactionMarker

ACKS_ALL = -1
# Bound once: reading an enumeration's member costs as much as a call.
_NONE = ErrorCode.NONE
_DUPLICATE = AppendAction.DUPLICATE
_REFUSE = AppendAction.REFUSE


class AtRest(Protocol):
    """A reader that has all records of a partition (follower_reads.py, readers_at_rest.py)."""

    def end(self) -> None:
        """A change has happened that may concern the reader; it must remove itself."""


class FollowerAtRest(AtRest, Protocol):
    def on_watermark(self) -> None:
        """The watermark has moved: the next response sends it."""


class PartitionRuntime:
    """Created when the controller assigns the partition to this broker; exists until it is stopped.

    ``settings`` is the topic's; it is replaced when the topic's configuration changes."""

    def __init__(
        self,
        partition: TopicPartition,
        log: PartitionLog,
        replica: Replica,
        settings: TopicSettings,
        waiting: Purgatory,
        clock: Clock,
        lease: Lease | None = None,
    ) -> None:
        self.partition = partition
        self.log = log
        self.replica = replica
        self.settings = settings
        # The topic's counters, shared by all its partitions on this broker.
        self.traffic = Traffic()
        self._waiting = waiting
        self._clock = clock
        self._lease = endless_lease() if lease is None else lease
        # The store session in which the present role was given.
        self._lease_term = self._lease.term
        self._append_time = AppendTime()
        self.refusals = Refusals()
        # Age of the transactions open here; housekeeping updates it.
        self.ages = TransactionAges()
        # Closed while a new leader epoch is being made durable (hazard R-04) and after the end. A
        # leader appends meanwhile: its batches carry the epoch. It answers once it is open.
        self.is_open = False
        self._has_unsaved_epoch = False
        # Called after each change of role, when the partition serves in it or stops serving.
        self.on_role: Callable[[PartitionRuntime], object] = _ignore_role
        # Called when a follower's fetch shows that it could join the ISR, or, without a follower,
        # when the rules for joining have changed.
        self.on_may_join: Callable[[PartitionRuntime, int | None], object] = _ignore_role
        self.append_key: Hashable = WaitKey(f"log end of {partition}")
        self.watermark_key: Hashable = WaitKey(f"high watermark of {partition}")
        self.flush_key: Hashable = WaitKey(f"flush of {partition}")
        # Followers at rest by node id, until their rest ends.
        self.quiet: dict[int, FollowerAtRest] = {}
        # Consumers that have read up to the high watermark, until it or the log's start moves.
        self.readers: dict[AtRest, None] = {}
        # The log starts of its followers (record_deletion.py).
        self.start_key: Hashable = WaitKey(f"log starts of {partition}")
        # What its followers have proved about themselves (read_barriers.py).
        self.proof_key: Hashable = WaitKey(f"followers of {partition}")

    # ---- roles ----

    async def become(self, leadership: PartitionLeadership, term: int | None = None) -> RoleChange:
        """Take the role that the controller assigns; serve again once the epoch is on the disk.

        ``term``: the lease's when the order was checked; the default is the present one. An order
        of an earlier session that ends in this one is no proof for this one (R-19)."""
        term = self._lease.term if term is None else term
        # A truncation in progress ends first: a new leader's epoch starts at the log's new end.
        await self.log.settled()
        if leadership.leader == self.replica.node_id:
            change = self.replica.become_leader(leadership, self._clock.now_ms())
        else:
            change = self.replica.become_follower(leadership)
        if change.error != ErrorCode.NONE:
            return change
        self._lease_term = term
        self._has_unsaved_epoch = self._has_unsaved_epoch or change.is_new_epoch
        if self._has_unsaved_epoch:
            self.is_open = False
            # The parked requests belong to the previous leadership.
            self.wake_waiters()
            if self.log.log_end_offset > 0:
                # If this fails, the same epoch must not be served at the controller's next attempt.
                # An empty log needs no epoch entry: its first record adds one. That saves a disk
                # write for each of thousands of new partitions.
                await self.log.save_leader_epochs()
            if self.replica.is_leader and self.settings.flush_before_ack:
                # Records written as a follower count only now; clients may read them already.
                await self.flush()
            if self.replica.leader_epoch != leadership.leader_epoch:
                # The call that set the newer epoch makes it durable.
                return change
            self._has_unsaved_epoch = False
        was_closed, self.is_open = not self.is_open, True
        if was_closed or change.watermark_moved:
            self.wake_waiters()
        else:
            # The ISR or the set of replicas may have changed.
            self.wake_followers()
        self.on_role(self)
        return change

    def stop(self) -> None:
        """Stop serving; answer parked requests with NOT_LEADER_OR_FOLLOWER."""
        self.is_open = False
        self.resign()

    def resign(self) -> None:
        """Give up the role until the controller assigns one (R-16)."""
        self.replica.resign()
        self.wake_waiters()
        self.on_role(self)

    def use_settings(self, settings: TopicSettings) -> None:
        """Apply the topic's changed configuration."""
        self.settings = settings
        self.log.settings = settings.log
        self.log.home.to_flush[self.log] = None
        limits = self.replica.limits
        limits.min_insync_replicas = settings.min_insync_replicas
        limits.unclean_leader_election = settings.unclean_leader_election
        limits.counts_flushed = settings.flush_before_ack
        if self.replica.on_flushed(self.log.recovery_point, self._clock.now_ms()):
            self.wake_waiters()
        # Records written under another minimum may have to be checked again.
        self.on_may_join(self, None)

    def wake_waiters(self) -> None:
        """Make every request that is parked on this partition check again."""
        self.wake_followers()
        self.wake_readers()
        for key in (
            self.flush_key,
            self.start_key,
            self.proof_key,
        ):
            self._waiting.release(key)

    def wake_followers(self) -> None:
        """Make waiting and future fetches of followers check again."""
        self._waiting.release(self.append_key)
        for one in list(self.quiet.values()):
            one.end()
        assert not self.quiet, "a change would be kept from a follower"

    def wake_readers(self) -> None:
        """Make the requests that wait for the high watermark check again."""
        self._waiting.release(self.watermark_key)
        for one in list(self.readers):
            one.end()
        assert not self.readers, "a consumer would wait for what is there"

    @property
    def is_becoming_leader(self) -> bool:
        """Whether this broker leads in an epoch that is not on the disk yet."""
        return not self.is_open and self.replica.is_leader

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Whether a request with that leader epoch may be served here (KIP-320)."""
        if not self.is_open:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self.replica.check_leader_epoch(current_leader_epoch)

    @property
    def has_lease(self) -> bool:
        """Whether this leadership's session has a valid lease."""
        lease = self._lease
        return self._lease_term == lease.term and lease.holds(self._clock.now_ms())

    # ---- writing ----

    def judge(self, records: Buffer | None, api_version: int) -> RecordBatch | AppendPlan:
        """Check a client's records before they are decompressed; changes no state."""
        rules, wall_ms = self.settings.append_rules, self._clock.wall_ms()
        return judge_produced(records, rules, api_version, wall_ms)

    def write(self, judged: RecordBatch | AppendPlan, acks: int) -> AppendOutcome:
        """Append judged records. Client and disk errors are returned, never raised."""
        written = self.append(judged, acks)
        if isinstance(written, AppendOutcome):
            return written
        return appended(self.log, written)

    def append(self, judged: RecordBatch | AppendPlan, acks: int) -> RecordBatch | AppendOutcome:
        """Like ``write``, but return the batch itself if it was appended with its own times. HOT.

        That is the usual case, and the batch contains all that the answer needs."""
        stamps_time = False
        if isinstance(judged, RecordBatch):
            batch = judged
        elif judged.batch is None:
            return refused(self.log, judged.error, judged.message)
        else:
            batch, stamps_time = judged.batch, judged.stamps_time
        replica = self.replica
        leading = replica.leading
        if leading is None or not leading.followers or self.has_lease:
            error = replica.can_append(acks)
        else:
            error = replica.can_append(acks, has_lease=False)
        if error is not _NONE:
            return self._refuse(batch, error)
        if self.log.home.health.is_low_on_space:
            # Reads, deletes and replication continue; clients retry (hazard S-11).
            return self._refuse(batch, ErrorCode.KAFKA_STORAGE_ERROR, "the disk is almost full")
        if batch.producer_id > NO_PRODUCER_ID:
            outcome = judge_producer(replica, self.log, self.refusals, batch)
            if outcome is not None:
                return outcome
        if stamps_time:
            return self._append(batch, stamps_time=True)
        try:
            self._put(batch)
        except KafkaError as failure:
            return self._refuse(batch, failure.code, failure.message)
        return batch

    def write_marker(self, marker: TransactionMarker, transaction_version: int) -> AppendOutcome:
        """End a producer's transaction here. It counts once it is committed up to ``next_offset``.

        A repeated marker changes no state (``base_offset`` is -1) and counts when the first one
        does: the caller waits for the log's present end. A full disk does not refuse a marker,
        because it is small and lets readers and compaction continue."""
        replica = self.replica
        leading = replica.leading
        if leading is None:
            return refused(self.log, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        verdict = replica.history.producers.judge_marker(marker, transaction_version)
        if verdict.action is _REFUSE:
            return refused(self.log, verdict.error)
        # Also if the marker cannot be written now, or need not be: an earlier verification of this
        # transaction must not start it again (hazard T-13).
        leading.verifications.drop(marker.producer_id)
        error = replica.can_append(ACKS_ALL, has_lease=self.has_lease)
        if error is not _NONE:
            return refused(self.log, error)
        if verdict.action is _DUPLICATE:
            return AppendOutcome(
                next_offset=self.log.log_end_offset, leader_epoch=replica.leader_epoch
            )
        batch = parse_batch(bytearray(encode_marker(marker, self._clock.wall_ms())))
        return self._append(batch, stamps_time=self.settings.append_rules.uses_append_time)

    def _append(self, batch: RecordBatch, *, stamps_time: bool) -> AppendOutcome:
        append_time = NOTHING
        if stamps_time:
            append_time = self._append_time.next(self._clock.wall_ms())
            batch.stamp_append_time(append_time)
        try:
            self._put(batch)
        except KafkaError as error:
            return self._refuse(batch, error.code, error.message)
        return appended(self.log, batch, append_time)

    def _refuse(
        self, batch: RecordBatch, error: ErrorCode, message: str | None = None
    ) -> AppendOutcome:
        self.refusals.note(batch, error)
        return refused(self.log, error, message)

    def _put(self, batch: RecordBatch) -> None:
        """Assign the batch its offsets, write it, and notify the waiters. Raises KafkaError."""
        replica, log = self.replica, self.log
        batch.stamp(log.log_end_offset, replica.leader_epoch)
        now_ms = self._clock.now_ms()
        log.append((batch,) if batch.magic == MAGIC else batch.entries, now_ms)
        traffic = self.traffic
        traffic.appended_bytes += batch.size_bytes
        traffic.appended_count += batch.last_offset_delta + 1
        # Updated only after the write: state left by a failed write would make its retry a
        # duplicate (hazard T-04).
        aborted = replica.history.observe(batch)
        if aborted is not None:
            # The index entry comes before readers may pass the marker (hazard T-18).
            log.append_aborted(AbortedTransaction(*aborted))
        moved = replica.on_appended(log.log_end_offset, now_ms)
        watchers = self._waiting.watchers
        if self.quiet or self.append_key in watchers:
            self.wake_followers()
        if moved and (self.readers or self.watermark_key in watchers):
            self.wake_readers()

    def replication_state(self, required_offset: int, leader_epoch: int) -> ErrorCode | None:
        """Return the outcome of an append; None while it is open."""
        if self.is_becoming_leader:
            return None
        return self.replica.replication_state(required_offset, leader_epoch)

    @property
    def flush_is_due(self) -> bool:
        """Whether flush.messages or flush.ms requires a flush before the next acknowledgement."""
        log = self.log
        return log.settings.asks_for_flushes and log.flush_is_due(self._clock.now_ms())

    async def flush(self) -> None:
        """Make all appended records durable. Raises KafkaError if the disk has failed."""
        try:
            await self.log.flush()
            if self.replica.on_flushed(self.log.recovery_point, self._clock.now_ms()):
                self.wake_readers()
                # Followers that wait for records get the new watermark as well.
                self.wake_followers()
        finally:
            self._waiting.release(self.flush_key)

    # ---- reading ----

    def on_follower_fetch(self, fetch: FollowerFetch) -> FetchVerdict:
        """Handle a follower's fetch; called once for each of its requests."""
        if not self.is_open:
            return FetchVerdict(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        verdict = self.replica.on_follower_fetch(fetch, self._clock.now_ms())
        if verdict.watermark_moved:
            self.wake_readers()
        self._waiting.release(self.start_key)
        if verdict.may_join:
            self.on_may_join(self, fetch.node_id)
        return verdict

    @property
    def leader_epoch(self) -> int:
        return self.replica.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    def latest_offset(self, *, read_committed: bool, follower: bool) -> int:
        """Return the first offset that a reader with this isolation level must not see."""
        if follower:
            return self.replica.upper_bound(FetchIsolation.LOG_END)
        kind = FetchIsolation.READ_COMMITTED if read_committed else FetchIsolation.READ_UNCOMMITTED
        return self.replica.upper_bound(kind)

    def log_was_cut(self) -> None:
        """The log has lost records at its start."""
        self.replica.on_cut(self.log.log_start_offset, self.log.log_end_offset)
        # Send followers the new start, whether or not the watermark has moved.
        self.wake_waiters()


def _ignore_role(_partition: PartitionRuntime, _follower: int | None = None) -> None:
    """The default: most partitions have no subscriber."""
