"""A right or a user is taken away in the middle of something: what is delivered afterwards."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.protocol.acls import (
    AclFilter,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    Permission,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.sasl.scram import ScramClient
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.protocol.secret import Secret
from tests.broker.security.test_login import log_in
from tests.broker.support.requests import (
    TOPIC,
    batch,
    create,
    fetch,
    listed,
    produce,
    produced,
)
from tests.broker.support.transactional import Producer, committed_values, coordinator_of
from tests.support.in_process import running_broker
from tests.support.sasl_broker import sasl_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

    Begun = Callable[[], Awaitable[object]]
    Begin = Callable[["Scene", RawClient], Awaitable[Begun]]

# The rule says two seconds; a busy machine gets some more.
WITHIN_S = 10.0
LATEST = -1
TXN = AclResourceType.TRANSACTIONAL_ID
MECHANISM = SCRAM_MECHANISMS["SCRAM-SHA-256"]


class Scene:
    """Carol has a password in the store and rights by rules; Alice is a super user."""

    def __init__(self, running: RunningBroker, admin: ottla.Admin, alice: RawClient) -> None:
        self.running, self.admin, self.alice = running, admin, alice

    async def write(self, value: bytes) -> None:
        """One record, by Alice."""
        assert (await produced(self.alice, batch(value))).error_code == ErrorCode.NONE

    async def drop_rules(self) -> None:
        """Take all of Carol's rights, and return when the broker has heard of it."""
        await self.admin.acls.delete_acls([AclFilter(principal="User:carol")])

    async def drop_user(self) -> None:
        """Delete Carol."""
        await self.admin.users.delete_user("carol")


def _rules() -> list[AclRule]:
    resources = [(AclResourceType.TOPIC, TOPIC), (TXN, "carol"), (AclResourceType.GROUP, "g")]
    return [
        AclRule(
            AclPattern(*one),
            "User:carol",
            "*",
            Operation.ALL,
            Permission.ALLOW,
        )
        for one in resources
    ]


@asynccontextmanager
async def _scene() -> AsyncIterator[Scene]:
    settings = sasl_settings(
        "PLAIN",
        "SCRAM-SHA-256",
        authorizer_class_name="ottla.acl",
        super_users="User:alice;User:ANONYMOUS",
    )
    async with running_broker(settings) as running:
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
        }
        async with (
            ottla.Admin(str(running.broker.address), security=login) as admin,
            running.connect() as alice,
        ):
            await log_in(alice)
            # From so many partitions on, consumers get fetch sessions.
            await create(alice, partitions=16)
            await admin.users.set_password("carol", "carol-secret", "SCRAM-SHA-256")
            await admin.acls.create_acls(_rules())
            yield Scene(running, admin, alice)


async def _idle(_scene: Scene, carol: RawClient) -> Begun:
    async def go_on() -> object:
        answer = await carol.call(12, fetch(0))
        return answer.responses[0].partitions[0]

    return go_on


async def _long_poll(scene: Scene, carol: RawClient) -> Begun:
    before = scene.running.broker.parts.shared.waiting.count
    carol.send(12, asked := fetch(0, max_wait_ms=60_000))
    async with asyncio.timeout(30):
        while scene.running.broker.parts.shared.waiting.count == before:
            await asyncio.sleep(0.005)

    async def go_on() -> object:
        return (await carol.answer(12, asked)).responses[0].partitions[0]

    return go_on


async def _fetch_session(_scene: Scene, carol: RawClient) -> Begun:
    opening = fetch(0, session_epoch=0)
    (wanted,) = opening.topics[0].partitions
    opening.topics[0].partitions = [
        FetchPartition(index, fetch_offset=0, partition_max_bytes=wanted.partition_max_bytes)
        for index in range(16)
    ]
    first = await carol.call(12, opening)
    assert first.session_id

    async def go_on() -> object:
        later = fetch(0, session_id=first.session_id, session_epoch=1)
        later.topics = []
        answer = await carol.call(12, later)
        parts = [part for topic in answer.responses for part in topic.partitions]
        return parts[0] if parts else None

    return go_on


READERS: list[Begin] = [_idle, _long_poll, _fetch_session]


async def _ends(scene: Scene, carol: RawClient, go_on: Begun) -> Any:
    """What Carol gets after a record was written; None if her connection is gone."""
    begun = time.monotonic()
    await scene.write(b"secret")
    try:
        found = await go_on()
    except (EOFError, ConnectionError):
        found = None
    assert time.monotonic() - begun < WITHIN_S
    return found


@pytest.mark.parametrize("begin", READERS)
async def test_a_reader_with_a_revoked_right_gets_no_more_records(begin: Begin) -> None:
    """Tried (SEC-11): to read on when idle, in a long poll and in a fetch session."""
    async with _scene() as scene, _carol(scene) as carol:
        go_on = await begin(scene, carol)
        await scene.drop_rules()
        found = await _ends(scene, carol, go_on)
    assert found is not None
    assert found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not found.records


@pytest.mark.parametrize("begin", READERS)
async def test_a_deleted_reader_gets_no_more_records(begin: Begin) -> None:
    """Tried (SEC-11): the same with a session whose user is gone, though the rules are there."""
    async with _scene() as scene, _carol(scene) as carol:
        go_on = await begin(scene, carol)
        await scene.drop_user()
        await _until_closed(scene)
        assert await _ends(scene, carol, go_on) is None


@pytest.mark.parametrize("is_user", [True, False])
async def test_a_transaction_does_not_outlive_its_user_or_right(is_user: bool) -> None:
    """Tried (SEC-11): to write on and to commit in a transaction that had begun before."""
    async with _scene() as scene, _carol(scene) as carol:
        await coordinator_of(carol, "carol")
        producer = await Producer(carol, "carol").init()
        await producer.produce(b"before")
        if is_user:
            await scene.drop_user()
            await _until_closed(scene)
            for attempt in (producer.try_produce(b"after"), producer.try_end(committed=True)):
                with pytest.raises((EOFError, ConnectionError)):
                    await attempt
        else:
            await scene.drop_rules()
            refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert await producer.try_produce(b"after") == refused
            assert await producer.try_end(committed=True) == refused
        await scene.write(b"of alice")
        # The transaction stays open until its timeout, and nothing of it is delivered.
        assert await committed_values(scene.alice) == []


@pytest.mark.parametrize("last", ["unanswered", "malformed", "half"])
async def test_no_kind_of_request_keeps_the_session_of_a_deleted_user(last: str) -> None:
    """Tried (SEC-11): a stream of requests that have no answer (acks=0), one that cannot be
    decoded, and one that is not finished, around the moment at which the user goes."""
    async with _scene() as scene, _carol(scene) as carol:
        unanswered = produce(batch(b"of carol"), acks=0)
        if last == "half":
            carol.send_bytes(b"\0\0\1\0half")
        await scene.drop_user()
        begun = time.monotonic()
        while any(one.authenticated.user == "carol" for one in _sessions(scene)):
            assert time.monotonic() - begun < WITHIN_S
            if last == "unanswered":
                carol.send(9, unanswered)
            await asyncio.sleep(0.002)
        if last == "malformed":
            carol.send_bytes(b"\0\0\0\2ab")
        stored = await _end(scene)
        for _ in range(5):
            carol.send(9, unanswered)
        with pytest.raises((EOFError, ConnectionError)):
            await carol.call(12, fetch(0))
        await asyncio.sleep(0.05)
        assert await _end(scene) == stored


async def _end(scene: Scene) -> int:
    """The log end offset."""
    answer = await listed(scene.alice, LATEST)
    return int(answer.offset)


def _sessions(scene: Scene) -> list[Any]:
    return list(scene.running.broker.parts.logins._sessions.values())


@asynccontextmanager
async def _carol(scene: Scene) -> AsyncIterator[RawClient]:
    async with scene.running.connect() as client:
        await client.call(1, SaslHandshakeRequest(MECHANISM.name))
        scram = ScramClient(MECHANISM, "carol", Secret("carol-secret"), "a-nonce-of-this-test")
        token: bytes | None = scram.first()
        while token is not None:
            answer = await client.call(2, SaslAuthenticateRequest(token))
            assert answer.error_code == ErrorCode.NONE
            token = scram.next(answer.auth_bytes)
        yield client


async def _until_closed(scene: Scene) -> None:
    """The broker has ended Carol's session."""
    begun = time.monotonic()
    sessions = scene.running.broker.parts.logins._sessions
    while any(one.authenticated.user == "carol" for one in sessions.values()):
        assert time.monotonic() - begun < WITHIN_S
        await asyncio.sleep(0.01)
