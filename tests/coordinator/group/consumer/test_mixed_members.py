"""Members of both protocols come and go: no partition is believed in twice, and all is read."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coordinator.group.consumer.shard_site import Shard, join_request, partitions_of
from tests.coordinator.group.consumer.site import beat, image_of, join, told

if TYPE_CHECKING:
    from ottla.protocol.messages.join_group import JoinGroupResponse

PARTITIONS = 6


class Eager:
    """A classic client that revokes everything before it joins."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.member_id = ""
        self.joined: JoinGroupResponse | None = None
        self.waiting: int | None = None
        self.owned: set[int] = set()
        self.is_member = False

    def step(self) -> None:
        if self.is_member:
            self.heartbeat()
        elif self.joined is not None:
            self.sync(self.joined)
        elif self.waiting is not None:
            self.look()
        else:
            self.owned = set()
            request = join_request(self.member_id, [])
            self.waiting = self.shard.ask(request, 9 if self.member_id else 3)
            self.look()

    def look(self) -> None:
        assert self.waiting is not None
        response = self.shard.answers.get(self.waiting)
        if response is None:
            return
        self.waiting = None
        if response.error_code == ErrorCode.NONE:
            self.member_id, self.joined = response.member_id, response
        elif response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def sync(self, joined: JoinGroupResponse) -> None:
        ids = [one.member_id for one in joined.members]
        assignments = {
            name: list(range(index, PARTITIONS, len(ids))) for index, name in enumerate(ids)
        }
        ticket = self.shard.ask_sync(joined, assignments)
        response = self.shard.answers.get(ticket)
        # A follower may wait for its leader; it gives up here and asks again.
        if response is None:
            return
        if response.error_code == ErrorCode.NONE:
            self.owned, self.is_member = set(partitions_of(response.assignment)), True
        else:
            self.rejoin(response.error_code)

    def heartbeat(self) -> None:
        assert self.joined is not None
        error = self.shard.heartbeat(self.member_id, self.joined.generation_id)
        if error is not ErrorCode.NONE:
            self.rejoin(error)

    def rejoin(self, error: int) -> None:
        self.joined, self.is_member = None, False
        if error != ErrorCode.REBALANCE_IN_PROGRESS:
            self.owned = set()
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def leave(self) -> None:
        if self.member_id:
            self.shard.ask(LeaveGroupRequest("g", members=[MemberIdentity(self.member_id)]), 5)


class Modern:
    """A client of KIP-848."""

    def __init__(self, shard: Shard, name: str) -> None:
        self.shard = shard
        self.name = name
        self.epoch = 0
        self.owned: set[int] = set()

    def step(self) -> None:
        request = join(self.name) if not self.epoch else self.report()
        response = self.shard.consumer(request)
        if response.error_code == ErrorCode.NONE:
            self.epoch = response.member_epoch
            assignment = told(response)
            if assignment is not None:
                self.owned = set(assignment.get("t", []))
        else:
            assert response.error_code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )
            self.epoch, self.owned = 0, set()

    def report(self) -> Any:
        return beat(self.name, self.epoch, {"t": sorted(self.owned)})

    def leave(self) -> None:
        if self.epoch:
            self.shard.consumer(beat(self.name, -1))


Clients = dict[str, Eager | Modern]


def check(clients: Clients) -> None:
    believed = [index for client in clients.values() for index in client.owned]
    assert len(believed) == len(set(believed)), {n: c.owned for n, c in clients.items()}


def wander(shard: Shard, random: Random, clients: Clients) -> None:
    """Takes one step of a random member, or lets a member join or leave."""
    name = random.choice(["e1", "e2", "e3", "m1", "m2"])
    client = clients.get(name)
    if client is None:
        if random.random() < 0.3:
            clients[name] = Eager(shard) if name.startswith("e") else Modern(shard, name)
    elif random.random() < 0.06:
        # The name is used again, so that members return; a client never keeps what it had.
        del clients[name]
        client.leave()
    else:
        client.step()
    if random.random() < 0.2:
        shard.advance(random.choice([1, 100, 1_000]))


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_owned_twice_and_everything_is_owned_in_the_end(seed: int) -> None:
    """A migration takes days in practice; every mixture of members occurs, in every state."""
    random = Random(seed)
    shard = Shard()
    shard.image = image_of({"t": PARTITIONS})
    clients: Clients = {}
    for _ in range(200):
        wander(shard, random, clients)
        check(clients)

    clients.setdefault("e1", Eager(shard))
    for _ in range(30):
        for client in clients.values():
            client.step()
            check(clients)
        shard.advance(3_000)

    assert {i for client in clients.values() for i in client.owned} == set(range(PARTITIONS))
