"""Requested elections, and elections that return leadership to preferred leaders.

The preferred leader of a partition is the first of its replicas. Leaderships return in small
batches, only to brokers that have been in sync for a while, and those of coordinators last (C-18):
all at once would overload a broker that is warming up and disconnect every client at once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.controller.context import every_partition
from ottla.coordinator.controller.events import ControllerDecision, ElectLeaders, PreferredAsked
from ottla.coordinator.controller.leadership import settle
from ottla.coordinator.controller.settlement import Settlement
from ottla.coordinator.controller.specs import PartitionResult
from ottla.coordinator.controller.writes import WriteList
from ottla.coordinator.metadata.image import NO_LEADER
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Delete
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.coordinator.controller.context import ControllerContext
    from ottla.coordinator.controller.leadership import Circumstances
    from ottla.coordinator.metadata.image import PartitionState
    from ottla.protocol.ids import TopicPartition

BALANCE_BATCH = 50


def on_elect(context: ControllerContext, event: ElectLeaders) -> ControllerDecision:
    """Elect where it is needed and possible; each partition gets its own result."""
    items = every_partition(context.image) if event.partitions is None else event.partitions
    writes = WriteList()
    changed: list[TopicPartition] = []
    results = []
    for item in items:
        elected = _elected(context, item, event.allow_unclean)
        if isinstance(elected, PartitionResult):
            results.append(elected)
            continue
        results.append(PartitionResult(item))
        if item not in changed:
            writes.add_state(*item, elected, context.image.brokers)
            changed.append(item)
    assert [result.partition for result in results] == list(items)
    if event.partitions is None:
        needless = ErrorCode.ELECTION_NOT_NEEDED
        results = [result for result in results if result.error_code is not needless]
    return _carried_out(context, writes, changed, tuple(results))


def on_preferred_asked(context: ControllerContext, event: PreferredAsked) -> ControllerDecision:
    """Elect preferred leaders and delete the znode that requested it (ZKT-14, ZKT-17)."""
    if event.partitions is None:
        return ControllerDecision(reason="no znode requests preferred leaders")
    writes = WriteList()
    changed = []
    for item in sorted(set(event.partitions)):
        elected = _elected(context, item, allow_unclean=False)
        if not isinstance(elected, PartitionResult):
            writes.add_state(*item, elected, context.image.brokers)
            changed.append(item)
    writes.add([Delete(paths.PREFERRED_ELECTION, event.version)])
    return _carried_out(context, writes, changed, ())


def _carried_out(
    context: ControllerContext,
    writes: WriteList,
    changed: Sequence[TopicPartition],
    results: tuple[PartitionResult, ...],
) -> ControllerDecision:
    # Of two writes of one state the store would refuse the second, however often it is retried.
    assert len(set(changed)) == len(changed)
    done = writes.finish()
    writer = context.writer(context.after(done))
    messages = tuple(writer.announce(changed)) if changed else ()
    return ControllerDecision(done, messages, results, f"{len(changed)} leaders elected")


def _elected(
    context: ControllerContext, item: TopicPartition, allow_unclean: bool
) -> PartitionState | PartitionResult:
    topic = context.image.topics.get(item.topic)
    state = context.image.partition(*item)
    if topic is None or state is None or item.topic in context.deleting:
        text = "there is no such partition"
        return PartitionResult(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    settlement = Settlement(context)
    now = settlement.at(item, state, settlement.circumstances(context.image, topic))
    if not allow_unclean:
        return _preferred(item, state, now)
    if state.leader != NO_LEADER and state.leader in now.live:
        return PartitionResult(item, ErrorCode.ELECTION_NOT_NEEDED, "it has a leader")
    # Committed group offsets and transaction outcomes must never be lost.
    settled = settle(state, replace(now, allow_unclean_election=not topic.is_internal))
    if settled.leader == NO_LEADER:
        text = "no replica that may lead is alive"
        return PartitionResult(item, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, text)
    assert settled is not state, "a leader that cannot lead is replaced"
    return settled


def _preferred(
    item: TopicPartition, state: PartitionState, now: Circumstances
) -> PartitionState | PartitionResult:
    preferred = state.replicas[0]
    if state.leader == preferred and preferred in now.live:
        return PartitionResult(item, ErrorCode.ELECTION_NOT_NEEDED, "its preferred leader leads")
    if preferred not in state.isr or not now.may_lead(preferred):
        text = f"broker {preferred} is not in sync, or not there"
        return PartitionResult(item, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
    if preferred in now.low and now.should_lead(state.leader):
        text = f"broker {preferred} has no room on its disk: free some first"
        return PartitionResult(item, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
    assert state.has_state, "only a stored state has an ISR"
    return replace(
        state,
        leader=preferred,
        leader_epoch=state.leader_epoch + 1,
        controller_epoch=now.controller_epoch,
    )


def on_balance(context: ControllerContext, now_ms: float) -> ControllerDecision:
    """Return a batch of leaderships to brokers for which others lead too many.

    Once above the limit, all of a broker's are returned: stopping at the limit would leave it there
    for good. The decision has no writes if nothing is left to return."""
    displaced: dict[int, list[TopicPartition]] = defaultdict(list)
    owned: dict[int, int] = defaultdict(int)
    for item in every_partition(context.image):
        state = context.image.topics[item.topic].partitions[item.partition]
        owned[state.replicas[0]] += 1
        if state.leader != state.replicas[0] and not state.is_moving:
            displaced[state.replicas[0]].append(item)
    limit = context.settings.leader_imbalance_per_broker_percentage
    for node_id, items in displaced.items():
        assert len(items) <= owned[node_id]
        if 100 * len(items) > limit * owned[node_id]:
            context.balancing.add(node_id)
    for node_id, until_ms in list(context.relieved.items()):
        # Leaderships that moved off a full disk return regardless of the limit.
        if node_id in displaced and now_ms < until_ms:
            context.balancing.add(node_id)
        else:
            del context.relieved[node_id]
    candidates = [
        (item, elected)
        for node_id in sorted(context.balancing)
        if _is_settled(context, node_id, now_ms)
        for item in displaced.get(node_id, ())
        if not isinstance(elected := _elected(context, item, False), PartitionResult)
    ]
    if not candidates:
        context.balancing.clear()
    candidates.sort(key=lambda pair: (context.image.topics[pair[0].topic].is_internal, pair[0]))
    writes = WriteList()
    batch = candidates[:BALANCE_BATCH]
    for item, elected in batch:
        writes.add_state(*item, elected, context.image.brokers)
    return _carried_out(context, writes, [item for item, _ in batch], ())


def _is_settled(context: ControllerContext, node_id: int, now_ms: float) -> bool:
    """Whether the broker has not joined any ISR for a while, so it is not catching up."""
    last_ms = context.joined_ms.get(node_id, context.begun_ms)
    return now_ms - last_ms >= context.settings.balance_after_in_sync_ms
