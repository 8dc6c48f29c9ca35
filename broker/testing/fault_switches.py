"""Faults of the network, the disks and the requests of a cluster, and its time."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla.broker.testing.cluster_node import BROKERS, DiskCondition
from ottla.broker.testing.faulty_requests import RequestFault
from ottla.broker.testing.members import ClusterError, all_of
from ottla.broker.testing.refusals import can_be_refused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ottla.broker.testing.members import Members
    from ottla.protocol.apis import ApiKey
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ports import Address

# In a group of a partition: all clients.
CLIENTS_GROUP = "clients"
# Short enough for the brokers to consider it a busy loop, not a stall.
STEP_MS = 400.0
# The last part of a long advance goes in such steps: longer than a rebalance (5 minutes).
# The part before that goes in large steps.
EVEN_MS = 360_000.0
LARGE_STEPS = 200
# The end of the year 9999, Python's last date.
DATE_MS_MAX = 253_402_300_799_999
# Turns of the loop between two steps, in which the brokers do what is due.
TURNS = 8


class FaultSwitches:
    """Lives as long as the members; lasting faults also apply to brokers that start later."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._groups: list[frozenset[int | str]] = []
        self._numbers = count(1)
        self._faults: dict[int, tuple[RequestFault, int | None, int]] = {}
        members.on_restarted = self._on_restarted
        members.count_hit = self._count_hit

    # ---- the network ----

    async def partition(self, groups: Sequence[Collection[int | str]]) -> None:
        """Cut the network between those groups; a broker in none of them keeps all its connections.

        A single group is cut off from all others. Raises ClusterError."""
        sets = [frozenset(group) for group in groups]
        every_one: frozenset[int | str] = frozenset({*self._members.members, CLIENTS_GROUP})
        for group in sets:
            for one in group - {CLIENTS_GROUP}:
                if not isinstance(one, int):
                    raise ClusterError(f"{one!r} is neither a broker's number nor 'clients'")
                self._members.member(one)
        if sum(map(len, sets)) != len(frozenset[int | str]().union(*sets)):
            raise ClusterError("a broker can be on one side of a partition only")
        if len(sets) == 1:
            sets.append(every_one - sets[0])
        await self._members.prepare_for_loss()
        self._groups = sets
        await self._cut_all()

    async def heal(self) -> None:
        """Remove all cuts."""
        self._groups = []
        await self._cut_all()

    async def _cut_all(self) -> None:
        await all_of(
            node.cut(self._cut_off_from(node_id), self._is_cut(node_id, CLIENTS_GROUP))
            for node_id, node in self._members.nodes.items()
        )

    def _cut_off_from(self, node_id: int) -> list[Address]:
        return [
            member.addresses[BROKERS]
            for other, member in self._members.members.items()
            if member.addresses and self._is_cut(node_id, other)
        ]

    def _is_cut(self, one: int | str, other: int | str) -> bool:
        place = {member: index for index, group in enumerate(self._groups) for member in group}
        return one in place and other in place and place[one] != place[other]

    # ---- disks ----

    async def change_disk(self, node_id: int, changes: Mapping[str, Any]) -> None:
        """Set the state of its disk until ``mend``. Raises ClusterError."""
        node, member = self._members.node(node_id), self._members.member(node_id)
        member.disk = member.disk._replace(**changes)
        await node.set_disk(member.disk)

    async def mend_disk(self, node_id: int) -> None:
        """Remove the faults of its disk; also possible for a dead broker."""
        member = self._members.member(node_id)
        member.disk = DiskCondition()
        if member.node is not None:
            await member.node.set_disk(member.disk)

    # ---- requests ----

    async def fault_requests(
        self, key: ApiKey, error: ErrorCode | None, times: int, node_id: int | None
    ) -> None:
        """Let the next client requests of that API, to that broker or any, lose their reply or get
        that error instead. Raises ClusterError."""
        if error is not None and not can_be_refused(key):
            raise ClusterError(f"the response to {key.name} has no field for an error")
        if type(times) is not int or times < 1:
            raise ClusterError("count how many requests to disturb from 1")
        fault = RequestFault(next(self._numbers), key, error)
        if node_id is not None:
            self._members.node(node_id)
        self._faults[fault.number] = (fault, node_id, times)
        await all_of(
            node.add_request_fault(fault)
            for one, node in self._members.nodes.items()
            if node_id in (None, one)
        )

    async def forget_faults(self) -> None:
        """Remove the faults of requests."""
        for number in list(self._faults):
            await self._drop(number)

    def _count_hit(self, number: int) -> bool:
        if number not in self._faults:
            return False
        fault, node_id, left = self._faults[number]
        self._faults[number] = (fault, node_id, left - 1)
        if left == 1:
            del self._faults[number]
            self._members.spawn("drop a fault", self._drop(number))
        return True

    async def _drop(self, number: int) -> None:
        self._faults.pop(number, None)
        await all_of(node.drop_request_fault(number) for node in self._members.nodes.values())

    async def _on_restarted(self, node_id: int) -> None:
        node, member = self._members.node(node_id), self._members.member(node_id)
        # What it tore is torn.
        member.disk = member.disk._replace(is_tearing=False)
        await node.set_disk(member.disk)
        await self._cut_all()
        for fault, wanted, _left in list(self._faults.values()):
            if wanted in (None, node_id):
                await node.add_request_fault(fault)

    # ---- time ----

    async def advance(self, ms: float) -> None:
        """Advance the brokers' time, in steps between which they can communicate."""
        if ms < 0:
            raise ClusterError("time does not go back; jump_clock moves the date")
        if any(self._members.date_ms(one) + ms > DATE_MS_MAX for one in self._members.members):
            raise ClusterError(f"{ms} ms lead out of the years that have dates, to 9999")
        large_ms = max(0.0, ms - EVEN_MS)
        for _ in range(LARGE_STEPS if large_ms else 0):
            await self._step(large_ms / LARGE_STEPS)
        ms -= large_ms
        while ms > 0:
            await self._step(min(STEP_MS, ms))
            ms -= STEP_MS

    async def _step(self, ms: float) -> None:
        self._members.clock.advance(ms)
        await all_of(node.move_clock(ms, 0) for node in self._members.nodes.values())
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def jump(self, ms: int, node_id: int | None) -> None:
        """Move the date, for one broker or for all. Raises ClusterError."""
        moved = [*self._members.members] if node_id is None else [node_id]
        for one in moved:
            if not 0 <= self._members.date_ms(one) + ms <= DATE_MS_MAX:
                raise ClusterError(f"a jump by {ms} ms leads out of the years 1970 to 9999")
        for one in moved:
            member = self._members.member(one)
            member.step_ms += ms
            if member.node is not None:
                await member.node.move_clock(0.0, ms)
