"""Faults of several steps, each of which waits for the worst moment of the one before.

Most are the course of events in which a known bug has lost records somewhere; a sound cluster goes
through them unharmed. The faults of ``ClusterChaos`` come at any moment; these do not wait long for
theirs, and then give up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.simulation.clients.batches import batch_ends
from tests.simulation.cluster.chaos import ClusterChaos
from tests.simulation.cluster.ensemble import STORE_HOST

if TYPE_CHECKING:
    from ottla.coordinator.store.paths import StatePayload
    from tests.simulation.history import Partition

TOPPLING = ("kill", "kill_slow", "expire_session", "pause", "isolate", "cut_store")
LEAVE_S = 8.0
ELECTION_S = 8.0


class Ambushes(ClusterChaos):
    """All faults of a cluster."""

    async def _do_topple(self) -> None:
        """Take a partition's leader away, and its successor, as soon as it has been elected."""
        partitions = self._cluster.partitions()
        if not partitions:
            return
        partition = self._random.choice(partitions)
        for _ in range(1 + self._random.below(3)):
            state = self._cluster.state(*partition)
            if state is None or state.leader < 0 or self.is_weak:
                return
            broker = self.brokers[state.leader]
            self._active.append(asyncio.ensure_future(broker.strike(self._random.choice(TOPPLING))))
            if not await self._wait_for(4.0, lambda old=state: self._has_moved(partition, old)):  # type: ignore[misc]
                return
            await asyncio.sleep(self._random.choice((0.0, 0.005, 0.05, 0.3)))

    def _has_moved(self, partition: Partition, old: StatePayload) -> bool:
        state = self._cluster.state(*partition)
        return state is not None and state.leader_epoch > old.leader_epoch and state.leader >= 0

    # ---- while a replica joins ----

    async def _do_power_cut_joiner(self) -> None:
        """Of a replica that is being added to an in-sync set at that very moment (R-22).

        It may be a member of others, so that all its fellows must be whole."""
        if not await self._wait_for(3.0, lambda: bool(self._cluster.expansions())):
            return
        _, joining = self._random.choice(self._cluster.expansions())
        if not self.all_are_whole(but=joining):
            return
        broker = self.brokers[joining]
        await broker.strike("power_cut_soon")

    async def _do_strike_expansion(self) -> None:
        """While a replica is being added to an in-sync set: it falls behind, the leader does not
        hear that it was added, or the outcome is unknown (R-13), and is gone a moment later
        (R-12)."""
        if not await self._wait_for(3.0, lambda: bool(self._cluster.expansions())):
            return
        leader, joining = self._random.choice(self._cluster.expansions())
        is_deaf = self._random.chance(0.5)
        one = self._name(leader)
        unheard = [(STORE_HOST, one)] if is_deaf else []
        with self._severed(*self._between(leader, joining), *unheard):
            if not is_deaf:
                await asyncio.sleep(self._ensemble.profile.commit_ms / 1_000.0)
                self._ensemble.disconnect(one)
            await asyncio.sleep(self._random.choice((0.1, 0.5, 1.0)))
            if not self.is_weak:
                await self.brokers[leader].strike(self._random.choice(TOPPLING))
            await asyncio.sleep(0.5)

    async def _do_take_over(self) -> None:
        """A follower leaves the in-sync set. What was held back for it is acknowledged now, which
        the only other member does not hear before the leader goes: it leads, with an old watermark
        that the one left behind has reached. It goes as soon as it has added that one (R-11)."""
        found = self._whole_partition()
        if found is None:
            return
        partition, state = found
        leader = state.leader
        heir, behind = self._random.sample([node for node in state.isr if node != leader], 2)
        with self._severed(*self._between(leader, behind)):
            if not await self._wait_for(LEAVE_S, lambda: self._drops(leader, behind, partition)):
                return
            with self._severed((self._name(leader), self._name(heir))):
                if not await self._wait_for(1.0, lambda: not self._is_member(behind, partition)):
                    return
                await asyncio.sleep(self._random.choice((0.03, 0.1, 0.2)))
                if self.is_weak:
                    return
                await self.brokers[leader].strike("kill_slow")
        joining = (heir, behind)
        if not await self._wait_for(ELECTION_S, lambda: joining in self._cluster.expansions()):
            return
        with self._severed(*self._between(heir, behind)):
            joins = await self._wait_for(1.0, lambda: self._is_member(behind, partition))
            if joins and not self.is_weak:
                await self.brokers[heir].strike("kill_slow")
                await self._wait_for(ELECTION_S, lambda: self._leads(behind, partition))

    async def _do_replace_joiner(self) -> None:
        """The power goes under a replica that is about to join, and its next life is registered
        before the wish to add it arrives. Then all others go (R-22)."""
        found = self._whole_partition()
        if found is None or not self.all_are_whole():
            return
        partition, state = found
        leader = state.leader
        joining = self._random.choice([node for node in state.isr if node != leader])
        with self._severed(*self._between(leader, joining)):
            if not await self._wait_for(LEAVE_S, lambda: not self._is_member(joining, partition)):
                return
        expansion = (leader, joining)
        if not await self._wait_for(4.0, lambda: expansion in self._cluster.expansions()):
            return
        if not self.all_are_whole(but=joining):
            return
        with self._severed(*self._between(leader, joining)):
            name = self._name(leader)
            with self._severed((name, STORE_HOST), (STORE_HOST, name)):
                await self._restart(joining, "power_cut_soon")
            if await self._wait_for(5.0, lambda: self._is_member(joining, partition)):
                await self._leave_to(joining, partition)

    # ---- while a replica comes back ----

    async def _do_strike_restarted(self) -> None:
        """Power off a replica for less time than its session; then all others go down (R-23)."""
        found = self._whole_partition()
        if found is None or not self.all_are_whole():
            return
        partition, state = found
        victim = self._random.choice([node for node in state.isr if node != state.leader])
        with self._severed(*self._between(state.leader, victim)):
            await self._restart(victim, "power_cut_soon")
            if self._is_member(victim, partition):
                await self._leave_to(victim, partition)

    async def _do_rot(self) -> None:
        """One bit in the middle of a replica's log flips, and the replica is killed: it reads its
        log again. Then all others go (S-03)."""
        found = self._whole_partition()
        if found is None or not self.all_are_whole():
            return
        partition, state = found
        victim = self._random.choice([node for node in state.isr if node != state.leader])
        if not self._flip_bit(victim, partition):
            return
        self.rotten.append((victim, partition))
        self.brokers[victim].may_lack_records = True
        with self._severed(*self._between(state.leader, victim)):
            await self._restart(victim, "kill")
            if self._is_member(victim, partition):
                await self._leave_to(victim, partition)

    def _flip_bit(self, node_id: int, partition: Partition) -> bool:
        """In the last byte of a batch that was not flushed yet; others lie before and behind it."""
        runtime = self._cluster.brokers[node_id].partitions.find(*partition)
        if runtime is None:
            return False
        segment = runtime.log.active
        if (node_id, partition) in self.rotten:
            return False
        inode = self._cluster.nodes[node_id].files.file(segment.path)
        ends = [
            position
            for position, offset in batch_ends(memoryview(bytes(inode.data)))
            if runtime.log.recovery_point < offset < runtime.replica.high_watermark
        ]
        if len(ends) < 4:
            return False
        inode.flip_bit(ends[len(ends) // 3] - 1, self._random.below(8))
        return True

    async def _restart(self, node_id: int, how: str) -> None:
        """End a broker that is soon back, and wait until a controller knows its next life."""
        generation = self._cluster.seen_generation(node_id)
        await self.brokers[node_id].strike(how)
        await self._wait_for(5.0, lambda: self._cluster.seen_generation(node_id) != generation)

    async def _leave_to(self, heir: int, partition: Partition) -> None:
        """Kill each leader in turn until ``heir`` leads, if it ever does."""
        for _ in self.brokers:
            state = self._cluster.state(*partition)
            if state is None or state.leader in (heir, -1):
                return
            await self.brokers[state.leader].strike("kill_slow")
            if not await self._wait_for(
                ELECTION_S,
                lambda old=state: self._has_moved(partition, old),  # type: ignore[misc]
            ):
                return
        await asyncio.sleep(0.3)

    # ---- looking ----

    def _whole_partition(self) -> tuple[Partition, StatePayload] | None:
        """One that is led and has at least three in sync."""
        found = []
        for partition in self._cluster.partitions():
            state = self._cluster.state(*partition)
            if state is not None and state.leader >= 0 and len(state.isr) >= 3:
                found.append((partition, state))
        return self._random.choice(found) if found else None

    def _is_member(self, node_id: int, partition: Partition) -> bool:
        state = self._cluster.state(*partition)
        return state is not None and node_id in state.isr

    def _leads(self, node_id: int, partition: Partition) -> bool:
        state = self._cluster.state(*partition)
        return state is not None and state.leader == node_id

    def _drops(self, leader: int, leaving: int, partition: Partition) -> bool:
        """Whether that one is being taken out right now."""
        runtime = self._cluster.brokers[leader].partitions.find(*partition)
        leading = None if runtime is None else runtime.replica.leading
        pending = None if leading is None else leading.in_sync.pending
        return pending is not None and leaving not in pending.isr

    def _name(self, node_id: int) -> str:
        return self.brokers[node_id].server.name

    def _between(self, one: int, other: int) -> list[tuple[str, str]]:
        names = self._name(one), self._name(other)
        return [names, names[::-1]]
