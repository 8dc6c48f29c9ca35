"""Rules for leader and ISR after brokers failed, restarted or were deleted.

Pure rules on one partition's state. The order of candidates: the ISR in replica order, then the
eligible leaders (KIP-966: members that left while the ISR was below its minimum, so that they hold
all that was committed), then, only if allowed, any live replica (R-25).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.image import NO_LEADER, PartitionState
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What an election depends on besides the partition's own state.

    ``live``: brokers that can serve this partition. ``restarted``: those of them with a new
    registration, which is a failure and a restart even if their absence was not seen (R-23).
    ``unclean``: restarted brokers that may have lost the end of their logs (R-21). ``away``: live
    brokers that shut down or seem dead; they get no role, and other ISR members, if any, take over
    (R-24). ``low``: brokers whose disk has hardly any room for this partition's replica: other ISR
    members should lead. ``stuck``: those whose disk is full: acks=all would wait for them."""

    live: frozenset[int]
    restarted: frozenset[int] = frozenset()
    unclean: frozenset[int] = frozenset()
    away: frozenset[int] = frozenset()
    low: frozenset[int] = frozenset()
    stuck: frozenset[int] = frozenset()
    min_insync_replicas: int = 1
    allow_unclean_election: bool = False
    controller_epoch: int = 0

    def may_lead(self, node_id: int) -> bool:
        """Whether the broker may become leader."""
        return node_id in self.live and node_id not in self.away

    def should_lead(self, node_id: int) -> bool:
        """Whether it may lead and its disk has room for what clients write."""
        return self.may_lead(node_id) and node_id not in self.low

    def leaders(self, candidates: Iterable[int]) -> list[int]:
        """The candidates that may lead: most room first, otherwise in their order."""
        allowed = [node_id for node_id in candidates if self.may_lead(node_id)]
        if self.low:
            allowed.sort(key=lambda node_id: (node_id in self.low) + (node_id in self.stuck))
        return allowed

    def without(self, nodes: Iterable[int]) -> Circumstances:
        """The same for a partition whose replicas on those nodes cannot be served (KIP-112)."""
        return replace(self, live=self.live.difference(nodes))


def settle(state: PartitionState, now: Circumstances) -> PartitionState:
    """The state that the partition should have; the same object if it has it.

    Any change of leader or ISR raises the leader epoch, which fences those that act on the old
    state; so does a restart of the leader, even if it leads again (R-23)."""
    if not state.has_state:
        return _first_state(state, now)
    settled = _forget_losses(state, now) if now.unclean else state
    if now.restarted:
        settled = _without_failed(settled, now, now.live - now.restarted)
    settled = _without_failed(settled, now, now.live)
    settled = _handed_over(settled, now)
    if now.low:
        settled = _relieved(settled, now)
    settled = _with_leader(settled, now)
    assert settled.leader == NO_LEADER or settled.leader in now.live.intersection(settled.isr)
    # A partition that forgot its last candidates would never have a leader again (KIP-966).
    assert settled.isr or settled.eligible_leaders or not (state.isr or state.eligible_leaders)
    # The write is conditional on the epoch that was read; moves alone change the replicas.
    assert (settled.partition_epoch, settled.replicas) == (state.partition_epoch, state.replicas)
    if settled == state and state.leader not in now.restarted:
        return state
    return replace(
        settled, leader_epoch=state.leader_epoch + 1, controller_epoch=now.controller_epoch
    )


def _first_state(state: PartitionState, now: Circumstances) -> PartitionState:
    live = now.leaders(state.replicas)
    if not live:
        return state
    members = [one for one in live if one not in now.stuck] or live
    isr = tuple(one for one in state.replicas if one in members)
    assert live[0] in isr, "the leaders with most room come first"
    return replace(
        state, leader=live[0], isr=isr, leader_epoch=0, controller_epoch=now.controller_epoch
    )


def _forget_losses(state: PartitionState, now: Circumstances) -> PartitionState:
    """Remove brokers that may have lost records from the ISR and the eligible leaders.

    If that left none, the last known leader stays, else one ISR member: after a loss on every
    replica, all that is possible is to serve what is left (a single replica after kill -9 is the
    common case)."""
    isr = tuple(node_id for node_id in state.isr if node_id not in now.unclean)
    eligible = tuple(node_id for node_id in state.eligible_leaders if node_id not in now.unclean)
    if not isr and not eligible:
        candidates = state.isr or state.eligible_leaders
        if not candidates:
            return state
        isr = (state.leader,) if state.leader in candidates else candidates[:1]
    return replace(state, isr=isr, eligible_leaders=eligible)


def _without_failed(
    state: PartitionState, now: Circumstances, standing: frozenset[int]
) -> PartitionState:
    """Shrink the ISR to those that did not fail, unless it would become empty."""
    assert standing <= now.live
    leader = state.leader if state.leader in standing else NO_LEADER
    isr = tuple(node_id for node_id in state.isr if node_id in standing)
    if not isr:
        return replace(state, leader=leader)
    left = tuple(node_id for node_id in state.isr if node_id not in standing)
    eligible = _eligible(state, isr, left, now)
    if not left and leader == state.leader and eligible == state.eligible_leaders:
        return state
    return replace(state, leader=leader, isr=isr, eligible_leaders=eligible)


def _handed_over(state: PartitionState, now: Circumstances) -> PartitionState:
    """Remove brokers that are away from leadership and ISR if other ISR members remain.

    Only ISR members are elected: while the leader lives, an election outside the ISR would lose its
    records."""
    left = tuple(node_id for node_id in state.isr if node_id in now.away)
    if not left or not any(now.may_lead(node_id) for node_id in state.isr):
        return state
    isr = tuple(node_id for node_id in state.isr if node_id not in now.away)
    assert isr, "the member that may lead is not away"
    leader = NO_LEADER if state.leader in now.away else state.leader
    return replace(state, leader=leader, isr=isr, eligible_leaders=_eligible(state, isr, left, now))


def _relieved(state: PartitionState, now: Circumstances) -> PartitionState:
    """If an ISR member has room, remove leaders without room, and members whose disk is full:
    each write would wait for them until they leave the ISR. Only ISR members count."""
    if not any(now.should_lead(node_id) for node_id in state.isr):
        return state
    left = tuple(node_id for node_id in state.isr if node_id in now.stuck)
    isr = tuple(node_id for node_id in state.isr if node_id not in now.stuck)
    assert isr, "a full disk has no room: the member that should lead is not stuck"
    leader = NO_LEADER if state.leader in now.low else state.leader
    if not left:
        return replace(state, leader=leader)
    return replace(state, leader=leader, isr=isr, eligible_leaders=_eligible(state, isr, left, now))


def _eligible(
    state: PartitionState, isr: tuple[int, ...], left: tuple[int, ...], now: Circumstances
) -> tuple[int, ...]:
    """The brokers outside the ISR that still hold all that was committed.

    At or above the minimum, the high watermark may have advanced without those that left."""
    assert isr, "with an empty ISR, the brokers that left are the candidates"
    if len(isr) >= min(now.min_insync_replicas, len(state.replicas)):
        return ()
    known = (*state.eligible_leaders, *left)
    return tuple(dict.fromkeys(node_id for node_id in known if node_id not in isr))


def _with_leader(state: PartitionState, now: Circumstances) -> PartitionState:
    if state.leader in state.isr and state.leader in now.live:
        return state
    candidates = now.leaders(state.replicas)
    for node_id in candidates:
        if node_id in state.isr:
            return replace(state, leader=node_id)
    for node_id in candidates:
        if node_id in state.eligible_leaders:
            isr = (node_id,)
            eligible = _eligible(state, isr, state.isr, now)
            return replace(state, leader=node_id, isr=isr, eligible_leaders=eligible)
    # Brokers that are away may still hold all records, and answer or restart soon.
    known = (*state.isr, *state.eligible_leaders)
    if now.allow_unclean_election and now.live.isdisjoint(known):
        for node_id in candidates:
            return replace(
                state, leader=node_id, isr=(node_id,), eligible_leaders=(), is_recovering=True
            )
    return replace(state, leader=NO_LEADER)
