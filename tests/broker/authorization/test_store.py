"""Rules of the store are in force on every broker, and no change of them is lost."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.authorization.authorizer import AclAuthorizer
from ottla.broker.authorization.store import AclStore
from ottla.broker.engine.tasks import Tasks
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.store import acls
from ottla.coordinator.store.announcements import ANNOUNCEMENT_RETENTION_MS
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.store import ConnectionLoss
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.wire.clock import RealClock
from tests.broker.authorization.test_authorizer import Caller, Told
from tests.coordinator.store.support import DIRECTORY, StillClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.authorization.store import Edit
    from ottla.coordinator.store.store import MetadataSession

TOPIC = AclResourceType.TOPIC
READ = Operation.READ
T = AclPattern(TOPIC, "t")


def _rule(user: str, pattern: AclPattern = T) -> AclRule:
    return AclRule(pattern, f"User:{user}", "*", READ, Permission.ALLOW)


def _adding(*rules: AclRule) -> Edit:
    return lambda before: tuple(dict.fromkeys([*before, *rules]))


class Node:
    """One broker's authorizer and its view of the store."""

    def __init__(self, session: MetadataSession, tasks: Tasks, clock: StillClock) -> None:
        self.session = session
        self.clock = clock
        self.authorizer = AclAuthorizer(frozenset(), open_without_rules=False, tell=Told())
        self.store = AclStore(self.authorizer, RealClock(), tasks)
        self.changing: asyncio.Task[None] | None = None

    def allows(self, user: str, topic: str = "t") -> bool:
        return self.authorizer.is_allowed(Caller(f"User:{user}"), READ, TOPIC, topic)

    async def add(self, *rules: AclRule) -> None:
        errors = await self.store.change({rules[0].pattern: _adding(*rules)})
        assert set(errors.values()) == {None}


@asynccontextmanager
async def _nodes(count: int) -> AsyncIterator[list[Node]]:
    tasks, clock = Tasks(), StillClock()
    store = await EmbeddedStore.open(MemoryDisk(), clock, tasks.spawn, DIRECTORY)
    nodes = [Node(await store.connect(), tasks, clock) for _ in range(count)]
    for node in nodes:
        await node.store.load(node.session)
        await node.store.begin(node.session)
    yield nodes
    for node in nodes:
        await node.store.end()
    await tasks.stop()
    await store.close()


async def _until(node: Node, user: str, *, allowed: bool) -> None:
    async with asyncio.timeout(30):
        while node.allows(user) is not allowed:
            await asyncio.sleep(0.005)


async def test_a_rule_is_in_force_on_every_broker_and_goes_from_every_broker() -> None:
    """On the broker that was asked at once, on the others by the announcement."""
    async with _nodes(3) as nodes:
        await nodes[0].add(_rule("me"))
        assert nodes[0].allows("me")
        for node in nodes:
            await _until(node, "me", allowed=True)

        await nodes[1].store.change({T: lambda _before: ()})
        assert not nodes[1].allows("me")
        for node in nodes:
            await _until(node, "me", allowed=False)
        assert await nodes[0].session.exists(acls.path_of(T)) is None


async def test_concurrent_changes_of_one_resource_are_all_made() -> None:
    """Three brokers add to one znode at the same time: each write checks the version."""
    async with _nodes(3) as nodes:
        async with asyncio.timeout(60):
            await asyncio.gather(
                *(
                    node.add(_rule(f"u{number}-{at}"))
                    for at, node in enumerate(nodes)
                    for number in range(4)
                )
            )
            found = (await nodes[0].session.get(acls.path_of(T))).data
        rules = acls.parse_rules(T, found)

        assert rules is not None
        assert {rule.principal for rule in rules} == {
            f"User:u{number}-{at}" for at in range(3) for number in range(4)
        }


async def test_rules_that_were_there_before_are_loaded() -> None:
    """Written by another tool, before this broker began, in both trees."""
    async with _nodes(1) as (node,):
        prefixed = AclPattern(TOPIC, "pre", PatternType.PREFIXED)
        for pattern, user in ((T, "me"), (prefixed, "you")):
            data = acls.build_rules([_rule(user, pattern)])
            await node.session.create(acls.path_of(pattern), data)
        assert not node.allows("me")

        await node.store.end()
        await node.store.begin(node.session)

        assert node.allows("me")
        assert node.allows("you", "prefix")


async def test_the_operator_is_told_once_of_a_rule_whose_host_is_a_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It denies everyone, or allows no client: neither is what its author meant. Also of one that
    was there before."""
    denying = _rule("me")._replace(host="db1.example\n", permission=Permission.DENY)
    allowing = _rule("you")._replace(host="10.0.0.0/8x")
    with caplog.at_level(logging.WARNING):
        async with _nodes(1) as (node,):
            await node.add(denying, _rule("other"))
            await node.add(allowing)
            await node.store.end()
            await node.store.begin(node.session)
    told = [record.getMessage() for record in caplog.records]

    assert [text.partition(": it ")[2].partition(".")[0] for text in told] == [
        "denies from every host",
        "allows no client",
    ]
    assert "'db1.example\\n' for 'User:me' on TOPIC 't'" in told[0]


async def test_a_rule_that_another_tool_has_written_and_announced_is_followed() -> None:
    """As ``kafka-acls`` with the address of ZooKeeper does: data first, then the announcement."""
    async with _nodes(1) as (node,):
        await node.session.create(acls.path_of(T), acls.build_rules([_rule("me")]))
        await node.session.create(
            acls.change_path(PatternType.LITERAL), b"Topic:t", sequential=True
        )

        await _until(node, "me", allowed=True)


async def test_an_unreadable_znode_closes_its_resource_and_is_not_overwritten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it said is unknown: it may have denied something."""
    everything = AclPattern(TOPIC, "*")
    async with _nodes(1) as (node,):
        await node.add(_rule("me", everything))
        await node.session.create(acls.path_of(T), b'{"version":1,"acls":[{}]}')
        await node.store.end()
        with caplog.at_level(logging.ERROR):
            await node.store.begin(node.session)
        assert "/kafka-acl/Topic/t are unreadable" in caplog.text
        assert not node.allows("me", "t")
        assert node.allows("me", "u")

        (error,) = (await node.store.change({T: _adding(_rule("me"))})).values()

        assert error is not None
        assert "repair or delete" in error.message
        found = await node.session.get(acls.path_of(T))
        assert json.loads(found.data) == {"version": 1, "acls": [{}]}


async def test_a_lost_answer_neither_loses_nor_repeats_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The write was done, its answer was lost: the broker looks, and finds the rule there."""
    async with _nodes(1) as (node,):
        session = node.session
        real, calls = session.multi, 0

        async def multi(operations: object) -> object:
            nonlocal calls
            calls += 1
            answer = await real(operations)  # type: ignore[arg-type]
            if calls == 1:
                raise ConnectionLoss("planted")
            return answer

        monkeypatch.setattr(session, "multi", multi)
        await node.add(_rule("me"))

        assert calls == 1
        assert node.allows("me")


async def test_the_rules_of_one_resource_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A znode that is too large for ZooKeeper would end the session."""
    monkeypatch.setattr(acls, "RULES_BYTES_MAX", 500)
    async with _nodes(1) as (node,):
        rules = [_rule(f"user-{number}") for number in range(10)]
        (error,) = (await node.store.change({T: _adding(*rules)})).values()

        assert error is not None
        assert error.code == ErrorCode.INVALID_REQUEST
        assert await node.session.exists(acls.path_of(T)) is None


async def test_without_a_session_nothing_changes_and_the_rules_stay() -> None:
    """A broker that cannot reach the store decides by what it knows until its lease ends."""
    async with _nodes(1) as (node,):
        await node.add(_rule("me"))
        await node.store.end()

        with pytest.raises(KafkaError):
            await node.store.change({T: lambda _before: ()})
        assert node.allows("me")


async def test_old_announcements_are_swept_away() -> None:
    """Otherwise every start would read all of history. Their age is by the store's clock alone."""
    async with _nodes(2) as nodes:
        for number in range(4):
            await nodes[0].add(_rule(f"u{number}"))
        assert len(await nodes[0].session.children("/kafka-acl-changes")) == 4

        nodes[0].clock.wall += ANNOUNCEMENT_RETENTION_MS + 1
        await nodes[0].add(_rule("last"))

        await _until(nodes[1], "last", allowed=True)
        async with asyncio.timeout(30):
            while len(await nodes[0].session.children("/kafka-acl-changes")) > 1:
                await asyncio.sleep(0.005)


async def test_a_change_while_the_rules_are_being_read_is_followed_and_those_after_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The announcement uses up the watch. A broker that forgot of it would hear of no change until
    its session ends, and would go on to allow what is not allowed any more."""
    async with _nodes(2) as (one, other):
        await one.store.end()
        real = one.session.get
        is_begun, may_go_on = asyncio.Event(), asyncio.Event()

        async def get(path: str, *rest: Any) -> Any:
            found = await real(path, *rest)
            is_begun.set()
            await may_go_on.wait()
            return found

        await other.add(_rule("early"))
        monkeypatch.setattr(one.session, "get", get)
        begun = asyncio.create_task(one.store.begin(one.session))
        await is_begun.wait()
        await other.store.change({T: lambda _before: (_rule("late"),)})
        await one.session.sync()
        may_go_on.set()
        await begun

        await _until(one, "late", allowed=True)
        assert not one.allows("early")
        await other.store.change({T: lambda _before: ()})
        await _until(one, "late", allowed=False)


async def test_a_change_of_this_broker_outlives_a_listing_that_is_older(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client's change may come between the listing of the rules and their reading."""
    async with _nodes(1) as (node,):
        await node.store.end()
        real = node.session.children

        async def children(path: str, *rest: Any) -> list[str]:
            found = await real(path, *rest)
            if path == "/kafka-acl-extended/prefixed/User":
                # The last of all folders.
                node.changing = asyncio.create_task(node.add(_rule("me")))
                await asyncio.sleep(0.1)
            return found

        monkeypatch.setattr(node.session, "children", children)
        await node.store.begin(node.session)
        assert node.changing is not None
        await node.changing

        assert node.allows("me")
