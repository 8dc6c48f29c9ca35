"""A simulated member of KIP-848: heartbeats, takes up and gives up partitions one step at a time.

It is slow now and then, loses answers on purpose, and after any unknown outcome reports its full
state.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.simulation.clients.wire import Gone
from tests.simulation.groups.coordination import (
    COORDINATION,
    OUTDATED,
    GroupVersions,
    find_coordinator,
    topic_names,
)
from tests.simulation.groups.identity import Identity
from tests.simulation.groups.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ids import Uuid
    from tests.simulation.clients.client import Client
    from tests.simulation.groups.evidence import GroupEvidence
    from tests.simulation.groups.terms import Terms
    from tests.simulation.history import Partition

JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
OWN_MEMBER_ID_VERSION = 1
OUT = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
DELAYS_MS = (0.0, 0.0, 0.0, 200.0, 900.0)
LOSES_ANSWER = 0.05


class ConsumerMember:
    """One life of a member: its process may end at any time."""

    def __init__(
        self, client: Client, evidence: GroupEvidence, terms: Terms, instance_id: str | None
    ) -> None:
        self.client = client
        self.evidence = evidence
        self.terms = terms
        self.random = client.random.child("groups")
        self.version = self.random.choice((0, 1, 1))
        versions = GroupVersions.draw(self.random, is_static=instance_id is not None)
        versions = versions._replace(commit=9, fetch=9)
        self.me = Identity(client, evidence, terms, instance_id, versions, speaks_consumer=True)
        self.reader = Reader(self.me)
        self._names: dict[Uuid, str] = {}
        self._assignor = self.random.choice((None, "uniform", "range"))
        # The assigned partitions, when and by which request they were assigned; what it last
        # reported.
        self._wanted: set[Partition] = set()
        self._asked = -1
        self._act_ms = -math.inf
        self._reported: set[Partition] = set()
        # Asked to give up what it has not taken up yet, one client reports its partitions, and
        # another one, as Java's, sends nothing; the broker then waits for the revocation in vain.
        self._reports_always = self.random.chance(0.5)
        self._is_report_due = False
        # Whether a full report is due, when the next heartbeat is due, and how long it is safe.
        self._is_in_doubt = True
        self._beat_ms = -math.inf
        self._calm_s = self._lease_s = -math.inf
        self._become_new()

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Until told to leave."""
        self._names = await topic_names(self.client, self.terms.topics)
        while go_on():
            try:
                if await find_coordinator(
                    self.client, self.me.versions.find_coordinator, self.terms.group
                ):
                    await self._work(go_on)
                else:
                    await self.client.pause()
            except Gone:
                await self.client.pause()
                self._take_up()
        await self._leave()

    async def _work(self, go_on: Callable[[], bool]) -> None:
        """Heartbeats and reading in turns, until the coordinator has to be looked for."""
        clock = self.client.ports.clock
        while go_on():
            if clock.now_ms() >= self._beat_ms and not await self._beat():
                await self.client.pause()
                return
            if self._wanted != self.reader.owned:
                await self._step()
            if self.me.generation > JOINING and not await self.reader.place():
                self._beat_ms = clock.now_ms()
                await self.client.pause()
            await self.reader.poll()
            if self.random.chance(0.6):
                self._look(await self.reader.commit())

    def _look(self, code: ErrorCode) -> None:
        """A member whose commit was refused as outdated asks for its epoch."""
        if code in OUTDATED or code is ErrorCode.FENCED_INSTANCE_ID:
            self._beat_ms = self.client.ports.clock.now_ms()
        elif code is not ErrorCode.NONE and code not in COORDINATION:
            self.me.surprise(f"was told {code.name} at committing")

    # -- heartbeats --------------------------------------------------------------------------

    async def _beat(self) -> bool:
        """Send one heartbeat; False when the coordinator has moved. Raises Gone."""
        is_full = self._is_in_doubt or self.me.generation == JOINING
        request = self._request(is_full)
        asked, asked_s = self.evidence.history.tick(), asyncio.get_running_loop().time()
        self._is_in_doubt = True
        wire = await self.client.wire()
        answer = wire.send(request, ApiKey.CONSUMER_GROUP_HEARTBEAT, self.version)
        if self.random.chance(LOSES_ANSWER):
            self.client.disconnect()
        found = await wire.wait(answer)
        code = ErrorCode(found.error_code)
        if code is ErrorCode.NONE:
            self._is_in_doubt = False
            if request.topic_partitions is not None:
                self._reported, self._is_report_due = set(self.reader.owned), False
            self._hear(found, asked, asked_s)
            return True
        if code in OUT:
            self._become_new(is_replaced=code is ErrorCode.FENCED_INSTANCE_ID)
            return True
        if code not in COORDINATION and code is not ErrorCode.UNRELEASED_INSTANCE_ID:
            self.me.surprise(f"was told {code.name} ({found.error_message}) at a heartbeat")
        return False

    def _request(self, is_full: bool) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.terms.group,
            member_id=self.me.member_id,
            member_epoch=self.me.generation,
            instance_id=self.me.instance_id,
        )
        if is_full:
            request.rebalance_timeout_ms = self.terms.consumer_rebalance_timeout_ms
            request.subscribed_topic_names = self.terms.topics
            request.server_assignor = self._assignor
        if is_full or self._is_report_due or self.reader.owned != self._reported:
            request.topic_partitions = [
                TopicPartitions(
                    topic_id, sorted(p for topic, p in self.reader.owned if topic == name)
                )
                for topic_id, name in sorted(self._names.items())
                if any(topic == name for topic, _ in self.reader.owned)
            ]
        return request

    def _hear(self, found: Any, asked: int, asked_s: float) -> None:
        """Apply the epoch and the assignment of an answer."""
        self.me.member_id = found.member_id
        is_join = self.me.generation == JOINING
        self.me.is_told(asked, found.member_epoch)
        if found.assignment is None or is_join:
            self._calm_s = asked_s
        if found.assignment is not None:
            wanted = {
                (self._names[topic.topic_id], number)
                for topic in found.assignment.topic_partitions
                for number in topic.partitions
            }
            if wanted > self._wanted:
                self._calm_s = asked_s
            if wanted != self._wanted:
                self._act_ms = self.client.ports.clock.now_ms() + self.random.choice(DELAYS_MS)
                self._is_report_due = self._reports_always
            self._wanted, self._asked = wanted, asked
        self._lease_s = self.terms.consumer_lease_s(asked_s, self._calm_s)
        self.evidence.claims.extend(self.client.name, self._lease_s)
        self._beat_ms = self.client.ports.clock.now_ms() + found.heartbeat_interval_ms

    async def _step(self) -> None:
        """Give up first, then take up, then say so."""
        clock = self.client.ports.clock
        if clock.now_ms() < self._act_ms:
            return
        surplus = self.reader.owned - self._wanted
        if surplus:
            self._look(await self.reader.commit())
            self.reader.drop(surplus)
        self._take_up()

    def _take_up(self) -> None:
        """Take up the assigned partitions, also while no broker answers: a client's thread does
        that."""
        clock = self.client.ports.clock
        if self._wanted >= self.reader.owned and clock.now_ms() >= self._act_ms:
            self.reader.take(self._wanted, self._asked, self._lease_s)
            self._beat_ms = clock.now_ms()

    def _become_new(self, *, is_replaced: bool = False) -> None:
        """At the beginning, and whenever the broker says that it does not know us as we are."""
        self.reader.drop()
        self.me.begin()
        self.me.generation = JOINING
        if is_replaced or not self.me.member_id:
            has_own = self.version >= OWN_MEMBER_ID_VERSION
            self.me.member_id = self.random.token(16).hex() if has_own else ""
        self._wanted, self._reported, self._is_report_due = set(), set(), False
        self._asked = -1
        self._is_in_doubt = True
        self._beat_ms = self._act_ms = -math.inf
        self._calm_s = self._lease_s = -math.inf

    async def _leave(self) -> None:
        """For good, or for a while: a static one will be back, and keeps its place."""
        try:
            await self.reader.commit()
        except Gone:
            await self.client.pause()
        self.reader.drop()
        if self.me.generation == JOINING:
            return
        is_for_a_while = self.me.instance_id is not None and self.random.chance(0.7)
        self.me.generation = LEAVING_FOR_A_WHILE if is_for_a_while else LEAVING
        request = self._request(is_full=False)
        await self.client.once(request, ApiKey.CONSUMER_GROUP_HEARTBEAT, self.version)
