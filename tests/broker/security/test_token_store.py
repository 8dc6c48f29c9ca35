"""Tokens of the store are known to every broker, and one bad znode hurts no other token."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.engine.tasks import Tasks
from ottla.broker.security.delegation_tokens import CREDENTIAL, DelegationTokens
from ottla.broker.security.token_rules import TokenLifetimes, TokenOrder, renewed
from ottla.broker.security.token_store import TokenStore
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.store import delegation_tokens as layout
from ottla.coordinator.store.announcements import ANNOUNCEMENT_RETENTION_MS
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.store import ConnectionLoss
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.secret import Secret
from ottla.wire.real import RealRandom
from tests.coordinator.store.support import DIRECTORY, StillClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.coordinator.store.delegation_tokens import TokenInformation
    from ottla.coordinator.store.store import MetadataSession

SECRET = "s3cret"
ALICE = TokenOrder("User:alice", "User:alice", ("User:renewer",), -1)
LIMITS = TokenLifetimes(max_ms=100_000, renewal_ms=10_000)


class WallClock:
    """Stands until it is moved; sleeping takes no time."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> float:
        return self.ms

    def wall_ms(self) -> int:
        return self.ms

    async def sleep(self, _delay_ms: float) -> None:
        await asyncio.sleep(0)


class Node:
    """One broker's tokens."""

    def __init__(self, session: MetadataSession, tasks: Tasks, clock: WallClock) -> None:
        self.session = session
        self.clock = clock
        self.store_clock = StillClock()
        self.tokens = DelegationTokens(Secret(SECRET), clock, _Inline())  # type: ignore[arg-type]
        self.ended: list[tuple[str, str]] = []
        self.tokens.on_end = lambda credential, _reason: self.ended.append(credential)
        self.store = TokenStore(self.tokens, LIMITS, _Ports(clock), tasks)  # type: ignore[arg-type]

    async def knows(self, token_id: str, token: TokenInformation | None) -> None:
        async with asyncio.timeout(30):
            while next((t for t in self.tokens.all() if t.token_id == token_id), None) != token:
                await asyncio.sleep(0.005)


class _Ports:
    def __init__(self, clock: WallClock) -> None:
        self.clock, self.random = clock, RealRandom()


class _Inline:
    async def run(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


@asynccontextmanager
async def _nodes(count: int) -> AsyncIterator[list[Node]]:
    tasks, clock, store_clock = Tasks(), WallClock(), StillClock()
    store = await EmbeddedStore.open(MemoryDisk(), store_clock, tasks.spawn, DIRECTORY)
    nodes = [Node(await store.connect(), tasks, clock) for _ in range(count)]
    for node in nodes:
        node.store_clock = store_clock
        await node.store.begin(node.session)
    yield nodes
    for node in nodes:
        await node.store.end()
    await tasks.stop()
    await store.close()


async def test_a_token_is_known_everywhere_with_kafkas_hmac() -> None:
    """HMAC-SHA-512 of its id; the store holds no part of it."""
    async with _nodes(3) as nodes:
        token = await nodes[0].store.create(ALICE)
        for node in nodes:
            await node.knows(token.token_id, token)
            found = node.tokens.hmac_of(token.token_id)
            assert found == hmac.digest(SECRET.encode(), token.token_id.encode(), hashlib.sha512)
            assert node.tokens.token_of(found) == token
        data = (await nodes[0].session.get(layout.path_of(token.token_id))).data
        assert json.loads(data)["owner"] == "User%3Aalice"
        assert len(token.token_id) == 22


async def test_a_change_is_known_everywhere_and_a_removal_ends_sessions_everywhere() -> None:
    """On all brokers, by the announcement."""
    async with _nodes(3) as nodes:
        token = await nodes[0].store.create(ALICE)
        await nodes[1].knows(token.token_id, token)
        nodes[0].clock.ms += 5_000
        after = await nodes[1].store.change(
            token.token_id, lambda found: renewed(found, "User:renewer", -1, LIMITS, 1_005_000)
        )
        assert after is not None
        assert after.expiry_ms == 1_015_000
        for node in nodes:
            await node.knows(token.token_id, after)
            assert not node.ended
        assert await nodes[2].store.change(token.token_id, lambda _token: None) is None
        for node in nodes:
            await node.knows(token.token_id, None)
            assert node.ended == [(CREDENTIAL, token.token_id)]
            assert node.tokens.login_of(token.token_id) is None
            assert node.tokens.token_of(node.tokens.hmac_of(token.token_id)) is None
        with pytest.raises(KafkaError) as caught:
            await nodes[0].store.change(token.token_id, lambda token: token)
        assert caught.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_concurrent_changes_of_one_token_are_all_made() -> None:
    """Each write checks the version that was read."""
    async with _nodes(3) as nodes:
        token = await nodes[0].store.create(ALICE)
        for node in nodes:
            await node.knows(token.token_id, token)

        def longer(found: TokenInformation) -> TokenInformation:
            return found._replace(expiry_ms=found.expiry_ms + 1)

        async with asyncio.timeout(60):
            await asyncio.gather(*(node.store.change(token.token_id, longer) for node in nodes * 3))
        for node in nodes:
            await node.knows(token.token_id, token._replace(expiry_ms=token.expiry_ms + 9))


async def test_a_lost_answer_is_looked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write was done, the broker does not know: it looks, and neither repeats nor refuses."""
    async with _nodes(1) as (node,):
        multi = node.session.multi

        async def lost(operations: Any) -> Any:
            await multi(operations)
            monkeypatch.undo()
            raise ConnectionLoss("lost")

        monkeypatch.setattr(type(node.session), "multi", lambda _self, steps: lost(steps))
        token = await node.store.create(ALICE)
        assert node.tokens.all() == [token]
        assert await node.session.children(layout.TOKENS) == [token.token_id]
        monkeypatch.setattr(type(node.session), "multi", lambda _self, steps: lost(steps))
        assert await node.store.change(token.token_id, lambda _token: None) is None
        assert not node.tokens.all()


async def test_a_poisoned_znode_hurts_one_token_only(caplog: pytest.LogCaptureFixture) -> None:
    """Its sessions end, the others stay; the broker goes on following."""
    async with _nodes(2) as nodes:
        session = nodes[0].session
        hurt, well = [await nodes[0].store.create(ALICE) for _ in range(2)]
        await nodes[1].knows(well.token_id, well)
        await nodes[1].knows(hurt.token_id, hurt)
        await session.set(layout.path_of(hurt.token_id), b"[" * 50_000)
        await session.create(layout.path_of("ünknown\n name"), b"\xff")
        for told in (hurt.token_id.encode(), b"../../config", b"\xff\xfe", b""):
            await session.create(f"{layout.CHANGES}/token_change_", told, sequential=True)
        for node in nodes:
            await node.knows(hurt.token_id, None)
            assert node.ended == [(CREDENTIAL, hurt.token_id)]
            assert node.tokens.all() == [well]
        late = await nodes[1].store.create(ALICE)
        await nodes[0].knows(late.token_id, late)
        # A broker that starts now reads all of them.
        await nodes[0].store.end()
        await nodes[0].store.begin(session)
        assert {one.token_id for one in nodes[0].tokens.all()} == {well.token_id, late.token_id}
        assert hurt.token_id in caplog.text
        assert "\n name" not in caplog.text


async def test_the_controller_removes_what_has_expired() -> None:
    """And nothing that another broker has renewed meanwhile; sessions end before that."""
    async with _nodes(2) as (controller, other):
        old, new = [await controller.store.create(ALICE) for _ in range(2)]
        await other.knows(new.token_id, new)
        await other.knows(old.token_id, old)
        controller.clock.ms += 9_000
        later = await other.store.change(
            new.token_id, lambda found: renewed(found, "User:alice", -1, LIMITS, 1_009_000)
        )
        await controller.knows(new.token_id, later)
        # As if the controller had not heard of it.
        controller.tokens.take({new.token_id: new})
        controller.clock.ms += 1_001
        for node in (controller, other):
            node.tokens.end_expired()
            node.tokens.end_expired()
        assert other.ended == [(CREDENTIAL, old.token_id)]
        assert other.tokens.login_of(old.token_id) is None
        assert other.tokens.all() == [old, later]
        await controller.store.remove_expired()
        await other.knows(old.token_id, None)
        assert other.tokens.all() == [later]
        assert await other.session.children(layout.TOKENS) == [new.token_id]


async def test_the_chore_ends_sessions_on_each_broker_and_removes_on_the_controller() -> None:
    """Other brokers leave the store alone."""
    async with _nodes(2) as (controller, other):
        token = await controller.store.create(ALICE)
        await other.knows(token.token_id, token)
        controller.clock.ms += 10_001
        chore = asyncio.ensure_future(other.store.run(lambda: False, 1))
        async with asyncio.timeout(30):
            while not other.ended:
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        chore.cancel()
        assert await other.session.exists(layout.path_of(token.token_id)) is not None
        chore = asyncio.ensure_future(controller.store.run(lambda: True, 3_600_000))
        await other.knows(token.token_id, None)
        chore.cancel()
        assert controller.ended == other.ended == [(CREDENTIAL, token.token_id)]


async def test_old_announcements_are_swept() -> None:
    """By the store's own clock."""
    async with _nodes(1) as (node,):
        token = await node.store.create(ALICE)
        await node.store.change(token.token_id, lambda found: found)
        assert len(await node.session.children(layout.CHANGES)) == 2
        node.store_clock.wall += ANNOUNCEMENT_RETENTION_MS + 1
        await node.store.change(token.token_id, lambda found: found)
        async with asyncio.timeout(30):
            while len(await node.session.children(layout.CHANGES)) > 1:
                await asyncio.sleep(0.005)


async def test_a_token_with_too_many_renewers_is_refused() -> None:
    """It would fill the store."""
    async with _nodes(1) as (node,):
        order = ALICE._replace(renewers=tuple(f"User:{number:040}" for number in range(2_000)))
        with pytest.raises(KafkaError, match="fewer renewers") as caught:
            await node.store.create(order)
        assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_without_a_session_no_token_changes() -> None:
    """What is known stays in force."""
    async with _nodes(1) as (node,):
        token = await node.store.create(ALICE)
        await node.store.end()
        with pytest.raises(KafkaError) as caught:
            await node.store.create(ALICE)
        assert caught.value.code == ErrorCode.NETWORK_EXCEPTION
        assert node.tokens.login_of(token.token_id) is not None


async def test_a_change_while_the_tokens_are_being_read_is_followed_and_those_after_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that forgot of it would let a removed token in until its session ends."""
    async with _nodes(2) as (one, other):
        first, second = await other.store.create(ALICE), await other.store.create(ALICE)
        await one.store.end()
        real = one.session.get
        is_begun, may_go_on = asyncio.Event(), asyncio.Event()

        async def get(path: str, *rest: Any) -> Any:
            found = await real(path, *rest)
            is_begun.set()
            await may_go_on.wait()
            return found

        monkeypatch.setattr(one.session, "get", get)
        begun = asyncio.create_task(one.store.begin(one.session))
        await is_begun.wait()
        await other.store.change(first.token_id, lambda _token: None)
        await one.session.sync()
        may_go_on.set()
        await begun

        await one.knows(first.token_id, None)
        await other.store.change(second.token_id, lambda _token: None)
        await one.knows(second.token_id, None)
