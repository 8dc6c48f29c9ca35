"""The bugs by their ids, each with faults that are aimed at it."""

from __future__ import annotations

import asyncio
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ottla.broker.controlling.controller import ControllerCandidate
from ottla.broker.controlling.controllership import Controllership
from ottla.broker.controlling.senders import Senders, _Sender
from ottla.broker.log import flushing
from ottla.broker.log.recovery import loading
from ottla.broker.partitions import isr_writer
from ottla.broker.partitions.partition import PartitionRuntime
from ottla.broker.replica import partition as replica_partition
from ottla.broker.replica.epochs import LeaderEpochs
from ottla.broker.replica.isr import ChangeOutcome, InSyncSet
from ottla.broker.replica.leading import Leading
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.refusals import Refusals
from ottla.coordinator.controller.events import ControllerEpoch
from ottla.coordinator.controller.settlement import Settlement
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import (
    ANY_VERSION,
    Check,
    ConnectionLoss,
    GroupFailed,
    SessionExpired,
)
from ottla.protocol.errors import Fenced
from tests.simulation.cluster.hazards import answers, mixes
from tests.simulation.cluster.hazards.disks import OF_DISKS
from tests.simulation.cluster.hazards.replacing import Hazard, Replacement

if TYPE_CHECKING:
    from ottla.broker.replica.leading import PartitionLeadership
    from ottla.coordinator.controller.leadership import Circumstances

# ---- replication ----


def _truncates_to_the_watermark(before: Any) -> Any:
    async def become(self: PartitionRuntime, leadership: PartitionLeadership) -> Any:
        replica = self.replica
        if leadership.leader != replica.node_id and leadership.leader_epoch > replica.leader_epoch:
            await self.log.settled()
            replica.resign()
            await self.log.truncate_to(replica.high_watermark)
            replica.on_cut(self.log.log_start_offset, self.log.log_end_offset)
        return await before(self, leadership)

    return become


def _forgets_leaderships_without_writes(before: Any) -> Any:
    def become_leader(self: Replica, leadership: PartitionLeadership, now_ms: float) -> Any:
        change = before(self, leadership, now_ms)
        epochs = self.history.epochs
        if change.is_new_epoch and epochs._starts and epochs._starts[-1] == self.log_end_offset:
            del epochs._epochs[-1], epochs._starts[-1]
        return change

    return become_leader


def _ignores_the_fetchers_epoch(before: Any) -> Any:
    def check(self: Replica, _epoch: int, *, require_leader: bool = True) -> Any:
        return before(self, -1, require_leader=require_leader)

    return check


def _ignores_the_fetchers_lineage(_before: Any) -> Any:
    return lambda _self, _epoch, _offset, _end: None


def _joins_at_the_watermark(_before: Any) -> Any:
    def may_join(self: Leading, node_id: int, high_watermark: int) -> bool:
        follower = self.followers.get(node_id)
        return (
            follower is not None
            and node_id not in self.in_sync.maximal
            and follower.log_end_offset >= high_watermark
        )

    return may_join


def _joins_from_memory(before: Any) -> Any:
    def propose(
        self: Leading, high_watermark: int, end: int, now_ms: float, asking: int | None = None
    ) -> Any:
        for node_id, follower in self.followers.items():
            if asking is None and follower.broker_epoch >= 0:
                asking = node_id if self.may_join(node_id, high_watermark) else None
        return before(self, high_watermark, end, now_ms, asking)

    return propose


def _counts_the_stored_set_only(_before: Any) -> Any:
    def counted_ends(self: Leading, _log_end_offset: int, _now_ms: float) -> list[int]:
        members = self.in_sync.committed
        return [one.log_end_offset for one in self.followers.values() if one.node_id in members]

    return counted_ends


def _counts_members_only(_before: Any) -> Any:
    """Without the second net, which waits for every follower that keeps up."""

    def counted_ends(self: Leading, _log_end_offset: int, _now_ms: float) -> list[int]:
        members = self.in_sync.maximal
        return [one.log_end_offset for one in self.followers.values() if one.node_id in members]

    return counted_ends


def _commits_alone(_before: Any) -> Any:
    return property(lambda _self: True)


def _counts_one_as_enough(before: Any) -> Any:
    def count(self: Leading) -> None:
        before(self)
        self.insync_count = max(self.insync_count, self._limits.min_insync_replicas)

    return count


def _checks_nothing(_before: Any) -> Any:
    return lambda _path, _version: Check("/", ANY_VERSION)


def _takes_unknown_for_refused(before: Any) -> Any:
    def on_answer(self: InSyncSet, change: Any, outcome: Any, epoch: Any = None) -> bool:
        if outcome is ChangeOutcome.UNKNOWN:
            outcome = ChangeOutcome.REFUSED
        return bool(before(self, change, outcome, epoch))

    return on_answer


def _forgets_producers(before: Any) -> Any:
    def become_leader(self: Replica, leadership: PartitionLeadership, now_ms: float) -> Any:
        change = before(self, leadership, now_ms)
        if change.is_new_epoch:
            self.history.producers.clear()
        return change

    return become_leader


# ---- controller ----


def _writes_without_its_guard(_before: Any) -> Any:
    async def write(self: Controllership, write: Any) -> Any:
        try:
            if write.operations:
                await self._session.multi(list(write.operations))
        except GroupFailed as failed:
            # As if the guard stood before it.
            return GroupFailed(failed.index + 1, failed.error, len(failed.errors) + 1)
        except (ConnectionLoss, SessionExpired) as error:
            raise Fenced(str(error)) from error
        return None

    return write


def _stays(_before: Any) -> Any:
    async def check_place(_self: Controllership) -> None:
        return None

    return check_place


def _is_elected_in_two_steps(_before: Any) -> Any:
    async def elect(self: ControllerCandidate, session: Any) -> Any:
        changed = asyncio.Event()
        standing = await session.exists(paths.CONTROLLER, lambda _: changed.set())
        if standing is not None and standing.ephemeral_owner != session.session_id:
            await changed.wait()
            return None
        found = await session.get(paths.CONTROLLER_EPOCH)
        epoch, version = paths.parse_number(found.data) or 0, found.stat.version
        if standing is None:
            data = paths.build_controller(self._node_id, 0)
            await session.create(paths.CONTROLLER, data, ephemeral=True)
            epoch += 1
            stat = await session.set(paths.CONTROLLER_EPOCH, paths.build_number(epoch), version)
            version = stat.version
        identity = ControllerEpoch(self._node_id, epoch)
        return Controllership(session, self._metadata.cluster_id, identity, version, self._parts)

    return elect


def _waits_for_what_needs_the_session(_before: Any) -> Any:
    async def end(self: ControllerCandidate) -> None:
        campaign, self._campaign = self._campaign, None
        if campaign is not None:
            await asyncio.gather(campaign, return_exceptions=True)

    return end


def _sends_as_it_comes(_before: Any) -> Any:
    def send(self: Senders, messages: Any) -> None:
        for number, message in enumerate(messages):

            async def deliver(message: Any = message, number: int = number) -> None:
                epochs = [
                    state.leader_epoch
                    for topic in getattr(message.request, "topic_states", ())
                    for state in topic.partition_states
                ]
                # Some are on their way for longer than others.
                await self._clock.sleep(700.0 if (sum(epochs) + number) % 3 == 0 else 0.0)
                send = partial(self._channel.send, message.node_id, message.request)
                response = await self._repeated(_Sender(message.node_id, -1), send)
                self._reports.on_answer(message.node_id, message.request, response)

            self._tasks.spawn("unordered", deliver())

    return send


def _is_never_stale(_before: Any) -> Any:
    return lambda _replica, _leadership: False


def _notices_no_restart(before: Any) -> Any:
    def circumstances(
        self: Settlement, image: Any, topic: Any, _difference: Any = None
    ) -> Circumstances:
        found: Circumstances = before(self, image, topic)
        return found

    return circumstances


# ---- storage ----


def _takes_rot_for_a_torn_end(_before: Any) -> Any:
    return lambda _log, _finding, _promised_offset: True


def _promises_what_is_not_synced(_before: Any) -> Any:
    async def flush_segment(segment: Any) -> None:
        segment.synced_bytes = segment.size_bytes

    return flush_segment


HAZARDS = MappingProxyType(
    {
        **OF_DISKS,
        "R-01": Hazard(
            "a new follower cuts its log to its own high watermark",
            (Replacement(PartitionRuntime, "become", _truncates_to_the_watermark),),
            mixes.toppling,
        ),
        "R-03": Hazard(
            "a leader answers with its log end for an epoch that it does not know",
            (
                Replacement(
                    LeaderEpochs, "end_offset_for", answers.answers_its_end_for_unknown_epochs
                ),
            ),
            mixes.toppling,
        ),
        "R-04": Hazard(
            "a leadership without writes leaves no trace",
            (Replacement(Replica, "become_leader", _forgets_leaderships_without_writes),),
            mixes.toppling,
        ),
        "R-10": Hazard(
            "fetches carry neither epoch nor lineage",
            (
                Replacement(Replica, "check_leader_epoch", _ignores_the_fetchers_epoch),
                Replacement(LeaderEpochs, "divergence", _ignores_the_fetchers_lineage),
            ),
            mixes.toppling,
        ),
        "R-11": Hazard(
            "a replica joins the ISR at the watermark of a leader that has just begun",
            (Replacement(Leading, "may_join", _joins_at_the_watermark),),
            mixes.taking_over,
        ),
        "R-12": Hazard(
            "the watermark does not wait for members that are being added",
            (Replacement(Leading, "counted_ends", _counts_the_stored_set_only),),
            mixes.expanding,
        ),
        "R-13": Hazard(
            "a change of the ISR whose answer was lost is taken for refused",
            (
                Replacement(InSyncSet, "on_answer", _takes_unknown_for_refused),
                Replacement(Leading, "counted_ends", _counts_members_only),
            ),
            mixes.expanding,
        ),
        "R-17": Hazard(
            "a follower joins the ISR because it once had what the leader has",
            (Replacement(Leading, "propose", _joins_from_memory),),
            mixes.silencing,
        ),
        "R-18": Hazard(
            "below min.insync.replicas the leader commits alone",
            (
                Replacement(Leading, "may_commit", _commits_alone),
                Replacement(Leading, "_count", _counts_one_as_enough),
            ),
            mixes.lagging,
        ),
        "R-20": Hazard(
            "a leader with a new epoch says of what it has appended that it does not lead",
            (Replacement(Replica, "replication_state", answers.ends_waits_with_the_epoch),),
            mixes.losing_followers,
        ),
        "R-20b": Hazard(
            "a leader refuses while it saves a new epoch, and finds out of order what comes behind",
            (
                Replacement(Replica, "replication_state", answers.ends_waits_with_the_epoch),
                Replacement(PartitionRuntime, "write", answers.refuses_while_its_epoch_is_saved),
                Replacement(Refusals, "error_behind", answers.excuses_nothing),
            ),
            mixes.losing_followers_in_flight,
        ),
        "R-22": Hazard(
            "a replica is added to the ISR whatever has become of it since it fetched",
            (Replacement(isr_writer, "Check", _checks_nothing),),
            mixes.rejoining,
        ),
        "R-23": Hazard(
            "a fast restart that nobody notices",
            (Replacement(Settlement, "circumstances", _notices_no_restart),),
            mixes.restarting,
        ),
        "C-01": Hazard(
            "a controller that was replaced goes on writing",
            (
                Replacement(Controllership, "_write", _writes_without_its_guard),
                Replacement(Controllership, "_check_place", _stays),
            ),
            mixes.controllers,
        ),
        "C-03": Hazard(
            "an election is two steps, and who has done the first takes the second for done",
            (Replacement(ControllerCandidate, "_elect", _is_elected_in_two_steps),),
            mixes.controllers,
        ),
        "C-05": Hazard(
            "the end of a session is waited for by what needs the session",
            (Replacement(ControllerCandidate, "end", _waits_for_what_needs_the_session),),
            mixes.controllers,
        ),
        "C-11": Hazard(
            "the controller's requests overtake each other, and late ones are obeyed",
            (
                Replacement(Senders, "send", _sends_as_it_comes),
                Replacement(replica_partition, "_is_stale", _is_never_stale),
            ),
            mixes.controllers,
        ),
        "T-01": Hazard(
            "a new leader does not know what producers have written",
            (Replacement(Replica, "become_leader", _forgets_producers),),
            mixes.toppling,
        ),
        "S-03": Hazard(
            "a log ends where its first bit has flipped, and who was restarted is still trusted",
            (
                Replacement(loading, "is_torn", _takes_rot_for_a_torn_end),
                Replacement(Settlement, "circumstances", _notices_no_restart),
            ),
            mixes.rotting,
        ),
        "S-06": Hazard(
            "the recovery point promises what was not synced",
            (Replacement(flushing, "_flush_segment", _promises_what_is_not_synced),),
            mixes.power,
        ),
    }
)
