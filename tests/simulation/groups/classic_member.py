"""A simulated member of the classic protocol: joins, reads, commits, and joins again when told.

It speaks the protocol raw and has nothing to do with ``ottla.client``. An eager one lets go of
everything before it joins; a cooperative one says what it has, lets go of what it does not get
again, and then joins once more (KIP-429).
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import (
    ConsumerSubscription,
    read_assignment,
    write_subscription,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.clients.wire import Gone
from tests.simulation.groups.assigning import assign, by_topic
from tests.simulation.groups.coordination import COORDINATION, GroupVersions, find_coordinator
from tests.simulation.groups.evidence import Owned
from tests.simulation.groups.identity import Identity
from tests.simulation.groups.reading import Reader
from tests.simulation.groups.terms import LOST_ID, LOST_PLACE, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.clients.client import Client
    from tests.simulation.groups.evidence import GroupEvidence
    from tests.simulation.groups.terms import Terms

STATIC_LEAVE_VERSION = 3


class ClassicMember:
    """One life of a member: its process may end at any time."""

    def __init__(
        self, client: Client, evidence: GroupEvidence, terms: Terms, instance_id: str | None
    ) -> None:
        self.client = client
        self.evidence = evidence
        self.terms = terms
        is_static = instance_id is not None
        versions = GroupVersions.draw(client.random.child("groups"), is_static=is_static)
        self.me = Identity(client, evidence, terms, instance_id, versions)
        self.reader = Reader(self.me)
        # The last generation in which it got an assignment.
        self._settled_generation = -1
        self._lease_s = -math.inf
        self._is_first = True

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Until told to leave."""
        while go_on():
            try:
                if not await find_coordinator(
                    self.client, self.me.versions.find_coordinator, self.terms.group
                ):
                    await self.client.pause()
                    continue
                if await self._enter():
                    await self._work(go_on)
            except Gone:
                await self.client.pause()
        await self._leave()

    # -- a generation ------------------------------------------------------------------------

    async def _enter(self) -> bool:
        """Join the next generation and hear what is ours in it; False: join again.

        A generation is in the log when its assignment is; before, it may be given again."""
        if not self.terms.is_cooperative:
            self.reader.drop()
        if self.terms.kind is Kind.MIXED and asyncio.get_running_loop().time() > self._lease_s:
            # A KIP-848 group takes an id that it does not know for a new one, and does not say so.
            self.reader.drop()
            self.me.begin()
        joined = await self._ask(self._join_request(), ApiKey.JOIN_GROUP, self.me.versions.join)
        code = ErrorCode(joined.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.me.member_id = joined.member_id
            return False
        if not self._may_go_on(code, "joining"):
            await self.client.pause()
            return False
        self.me.member_id, self.me.generation = joined.member_id, joined.generation_id
        asked, asked_s = self.evidence.history.tick(), asyncio.get_running_loop().time()
        synced = await self._ask(
            self._sync_request(joined), ApiKey.SYNC_GROUP, self.me.versions.sync
        )
        if not self._may_go_on(ErrorCode(synced.error_code), "syncing"):
            return False
        self.me.is_told(asked, self.me.generation)
        self._settled_generation = self.me.generation
        return await self._take_up(synced.assignment, asked, asked_s)

    async def _take_up(self, content: bytes, asked: int, asked_s: float) -> bool:
        """Own what is ours; False where another round is due because something is not any more."""
        assignment, _ = read_assignment(content)
        assigned = {
            (topic.topic, number)
            for topic in assignment.assigned_partitions
            for number in topic.partitions
        }
        if self.terms.kind is Kind.CLASSIC:
            self.evidence.owned.append(
                Owned(
                    asked,
                    self.evidence.history.tick(),
                    self.terms.group,
                    self.me.generation,
                    self.me.instance_id or self.me.member_id,
                    tuple(sorted(assigned)),
                )
            )
        self._extend(asked_s)
        surplus = self.reader.owned - assigned
        if surplus:
            await self.reader.commit()
            self.reader.drop(surplus)
        self.reader.take(assigned, asked, self._lease_s)
        # A static member gets what its former incarnation had, without a round. What that one had
        # to give up is promised to another member, which waits for this one to join again.
        is_heir = self._is_first and self.me.instance_id is not None and self.terms.is_cooperative
        self._is_first = False
        return not (surplus or is_heir)

    async def _work(self, go_on: Callable[[], bool]) -> None:
        """Read and commit until the generation is over for this member."""
        clock, random = self.client.ports.clock, self.client.random
        beat_ms = clock.now_ms()
        while go_on():
            if not await self.reader.place():
                await self.client.pause()
            await self.reader.poll()
            if random.chance(0.6) and not self._may_go_on(await self.reader.commit(), "committing"):
                return
            if clock.now_ms() >= beat_ms:
                beat_ms = clock.now_ms() + self.terms.session_timeout_ms / 5
                if not await self._beat():
                    return

    async def _beat(self) -> bool:
        """Send one heartbeat; return whether the generation continues."""
        me, asked_s = self.me, asyncio.get_running_loop().time()
        request = HeartbeatRequest(self.terms.group, me.generation, me.member_id, me.instance_id)
        answer = await self._ask(request, ApiKey.HEARTBEAT, me.versions.heartbeat)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._extend(asked_s)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            await self.reader.commit()
        return self._may_go_on(code, "a heartbeat")

    def _extend(self, asked_s: float) -> None:
        """The answer to a request sent at that time did not announce another round."""
        self._lease_s = self.terms.lease_s(asked_s, asked_s)
        self.evidence.claims.extend(self.client.name, self._lease_s)

    def _may_go_on(self, code: ErrorCode, what: str) -> bool:
        """Whether the membership continues; unexpected errors are reported."""
        if code in LOST_ID:
            self.me.member_id, self.me.generation = "", -1
            self.me.begin()
            self.reader.drop()
        elif code is ErrorCode.ILLEGAL_GENERATION:
            # What it has may be another's in the generation that it has missed.
            self.reader.drop()
        elif code is not ErrorCode.NONE and code not in LOST_PLACE and code not in COORDINATION:
            self.me.surprise(f"was told {code.name} at {what}")
        return code is ErrorCode.NONE

    async def _leave(self) -> None:
        """Leave once; a session that is not renewed ends by itself."""
        self.reader.drop()
        me = self.me
        if not me.member_id:
            return
        request = LeaveGroupRequest(group_id=self.terms.group, member_id=me.member_id)
        if me.versions.leave >= STATIC_LEAVE_VERSION:
            identity = MemberIdentity(me.member_id, me.instance_id)
            request = LeaveGroupRequest(group_id=self.terms.group, members=[identity])
        await self.client.once(request, ApiKey.LEAVE_GROUP, me.versions.leave)

    # -- requests ----------------------------------------------------------------------------

    async def _ask(self, request: object, api_key: ApiKey, version: int) -> Any:
        """Send a request, waiting through rebalances. Raises Gone."""
        wire = await self.client.wire()
        answer = wire.send(request, api_key, version)
        return await wire.wait(answer, self.terms.rebalance_timeout_ms + 4_000.0)

    @property
    def _protocol(self) -> str:
        return "simulated-cooperative" if self.terms.is_cooperative else "simulated"

    def _join_request(self) -> JoinGroupRequest:
        subscription = ConsumerSubscription(topics=self.terms.topics)
        if self.terms.is_cooperative:
            subscription.owned_partitions = by_topic(self.reader.owned)
            subscription.generation_id = self._settled_generation
        metadata = write_subscription(subscription, 2 if self.terms.is_cooperative else 0)
        return JoinGroupRequest(
            group_id=self.terms.group,
            session_timeout_ms=self.terms.session_timeout_ms,
            rebalance_timeout_ms=self.terms.rebalance_timeout_ms,
            member_id=self.me.member_id,
            group_instance_id=self.me.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(self._protocol, metadata)],
        )

    def _sync_request(self, joined: Any) -> SyncGroupRequest:
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == self.me.member_id and not joined.skip_assignment:
            assignments = assign(
                joined.members, self.terms.partitions, is_cooperative=self.terms.is_cooperative
            )
        return SyncGroupRequest(
            group_id=self.terms.group,
            generation_id=self.me.generation,
            member_id=self.me.member_id,
            group_instance_id=self.me.instance_id,
            protocol_type="consumer",
            protocol_name=self._protocol,
            assignments=assignments,
        )
