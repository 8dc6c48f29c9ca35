"""Users with all rights on topics, who pretend to be a broker or the owner of a transaction."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.authorization.authorizer import AclAuthorizer
from ottla.broker.authorization.index import AclIndex
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.acls import AclPattern, AclResourceType, AclRule, Operation, Permission
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.broker.security.test_login import log_in
from tests.broker.support.requests import (
    TOPIC,
    batch,
    create,
    fetched,
    list_offsets,
    produce,
    produced,
)
from tests.broker.support.transactional import Producer, committed_values, coordinator_of
from tests.broker.support.transactions import marked, produce_request
from tests.support.in_process import running_broker
from tests.support.raw_client import RawClient
from tests.support.sasl_broker import jaas, sasl_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.in_process import RunningBroker

# Alice and Bob are clients; the brokers log in as root, who is a super user.
USERS = jaas("PLAIN", user_alice="a", user_bob="b", user_root="r", username="root", password="r")
LISTENERS = ("SASL_PLAINTEXT", "BROKERS")
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
HIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
FAR_AHEAD = 1_000


def _settings() -> dict[str, str]:
    return {
        **sasl_settings(authorizer_class_name="ottla.acl", super_users="User:root"),
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,BROKERS:SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
        "listener.name.brokers.plain.sasl.jaas.config": USERS,
    }


def _rules() -> list[AclRule]:
    mine = [(AclResourceType.TOPIC, "*"), (AclResourceType.GROUP, "*")]
    rights = [(f"User:{user}", kind, name) for user in ("alice", "bob") for kind, name in mine]
    rights += [
        (f"User:{user}", AclResourceType.TRANSACTIONAL_ID, user) for user in ("alice", "bob")
    ]
    return [
        AclRule(AclPattern(kind, name), who, "*", Operation.ALL, Permission.ALLOW)
        for who, kind, name in rights
    ]


@asynccontextmanager
async def _scene() -> AsyncIterator[RunningBroker]:
    async with running_broker(_settings()) as running:
        authorizer = running.broker.parts.authorization.authorizer
        assert isinstance(authorizer, AclAuthorizer)
        authorizer.take(AclIndex.of(_rules()))
        async with _as(running, "root") as root:
            await create(root)
            assert (await produced(root, batch(b"a", b"b"))).error_code == ErrorCode.NONE
        yield running


@asynccontextmanager
async def _as(
    running: RunningBroker, user: str, listener: str = LISTENERS[0]
) -> AsyncIterator[RawClient]:
    address = running.broker.addresses[listener]
    async with RawClient(address.host, address.port) as client:
        answer = await log_in(client, f"\0{user}\0{user[0]}".encode())
        assert answer.error_code == ErrorCode.NONE
        yield client


def _state(running: RunningBroker) -> tuple[Any, ...]:
    """What a false broker would change."""
    broker = running.broker
    partition = broker.partitions.find(TOPIC, 0)
    assert partition is not None
    image = broker.metadata.partition(TOPIC, 0)
    log = partition.log
    return (
        image,
        broker.metadata.controller_id,
        sorted(broker.metadata.image.brokers),
        partition.leader_epoch,
        partition.replica.high_watermark,
        (log.log_start_offset, log.log_end_offset),
    )


async def _as_controller(client: RawClient) -> list[int]:
    """The answers to orders that only a controller gives."""
    state = LeaderAndIsrPartitionState("", 0, FAR_AHEAD, 7, FAR_AHEAD, [7], FAR_AHEAD, [7])
    who: dict[str, Any] = {
        "controller_id": 1,
        "controller_epoch": FAR_AHEAD,
        "broker_epoch": FAR_AHEAD,
    }
    become = LeaderAndIsrRequest(
        **who, topic_states=[LeaderAndIsrTopicState(TOPIC, bytes(16), [state])]
    )
    stop = StopReplicaRequest(
        **who,
        topic_states=[
            StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, FAR_AHEAD, True)])
        ],
    )
    answers = [
        await client.call(7, become),
        await client.call(4, stop),
        await client.call(8, UpdateMetadataRequest(**who)),
        await client.call(3, ControlledShutdownRequest(1, FAR_AHEAD)),
    ]
    return [int(answer.error_code) for answer in answers]


async def _as_follower(client: RawClient) -> list[int]:
    """The answers to a follower's fetch, which would raise the high watermark, and ListOffsets."""
    asked = list_offsets(-1)
    asked.replica_id = 7
    (found,) = (await client.call(9, asked)).topics[0].partitions
    fetch = await fetched(client, FAR_AHEAD, replica_id=7)
    return [int(fetch.error_code), int(found.error_code)]


@pytest.mark.parametrize("listener", LISTENERS)
async def test_a_client_is_no_broker(listener: str) -> None:
    """Tried (SEC-09): all orders of a controller, and a follower's fetch, on both listeners."""
    async with _scene() as running:
        before = _state(running)
        async with _as(running, "alice", listener) as alice:
            assert set(await _as_controller(alice)) == {REFUSED}
            assert set(await _as_follower(alice)) == {HIDDEN}
            assert set(await marked(alice)) == {REFUSED}
        assert _state(running) == before


async def test_a_client_that_claims_to_be_a_follower_gets_no_followers_session() -> None:
    """Clients could take all slots, and no session of a true follower would push theirs out."""
    async with _scene() as running, _as(running, "alice", "BROKERS") as alice:
        fetch = await fetched(alice, 0, replica_id=7, session_epoch=0)
        assert fetch.error_code == HIDDEN
        assert running.broker.state.requests is not None
        assert not len(running.broker.state.requests.dispatcher._services.reads.sessions)


async def test_on_the_listener_of_clients_a_broker_is_none_either() -> None:
    """Tried (SEC-09): a broker's password where clients connect."""
    async with _scene() as running:
        before = _state(running)
        async with _as(running, "root") as root:
            assert set(await _as_controller(root)) == {REFUSED}
            assert set(await _as_follower(root)) == {HIDDEN}
        assert _state(running) == before


@pytest.mark.parametrize(
    ("more", "user", "listener", "reason"),
    [
        ({}, "root", "SASL_PLAINTEXT", "the listener is not the one that brokers use"),
        ({}, "alice", "SASL_PLAINTEXT", "the listener is not the one that brokers use"),
        ({}, "alice", "BROKERS", "there are no rules about it"),
        (
            {"ottla.broker.principals": "User:broker-{id}"},
            "root",
            "BROKERS",
            "ottla.broker.principals does not let it speak as broker 1",
        ),
        ({}, "root", "BROKERS", f"broker 1 is not the controller of epoch {FAR_AHEAD}"),
        (
            {"authorizer.class.name": "", "super.users": ""},
            "alice",
            "SASL_PLAINTEXT",
            "the listener is not the one that brokers use",
        ),
    ],
)
async def test_each_refused_order_of_a_controller_has_a_line_in_the_audit_log(
    more: dict[str, str], user: str, listener: str, reason: str
) -> None:
    """Also when no rule decides, and without an authorizer: who tried, what, where, and why not."""
    disk = MemoryDisk()
    disk.make_directory("/audit")
    settings = {**_settings(), "ottla.audit.log": "/audit/lines", **more}
    request = UpdateMetadataRequest(
        controller_id=1, controller_epoch=FAR_AHEAD, broker_epoch=FAR_AHEAD
    )
    async with running_broker(settings, disk=disk) as running:
        authorizer = running.broker.parts.authorization.authorizer
        if isinstance(authorizer, AclAuthorizer):
            authorizer.take(AclIndex.of(_rules()))
        async with _as(running, user, listener) as client:
            assert (await client.call(8, request)).error_code != ErrorCode.NONE
    kept = disk.open("/audit/lines")
    lines = [json.loads(line) for line in kept.pread(kept.size_bytes, 0).splitlines()]
    (line,) = [one for one in lines if one.get("api") == "UPDATE_METADATA"]
    assert line["event"] == "refusal"
    assert (line["principal"], line["listener"]) == (f"User:{user}", listener)
    assert line["operation"] == "ClusterAction"
    assert line["reason"].startswith(reason)


async def test_another_ones_transaction_cannot_be_joined_nor_ended() -> None:
    """Tried (SEC-10): its id, its producer id and epoch, flags without an id, and control batches,
    by a user who may write to the same topic."""
    async with _scene() as running, _as(running, "bob") as bobs, _as(running, "alice") as alices:
        await coordinator_of(bobs, "bob")
        bob = await Producer(bobs, "bob").init()
        await bob.produce(b"of bob")
        thief = Producer(alices, "bob")
        thief.producer_id, thief.epoch = bob.producer_id, bob.epoch
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await thief.try_init() == refused
        assert await thief.try_init(bump=True) == refused
        assert await thief.try_add(0) == [refused]
        assert await thief.try_add_offsets("g") == refused
        assert await thief.try_end(committed=False) == refused
        assert await thief.try_produce(b"of alice") == refused

        alice = await Producer(alices, "alice").init()
        own_id = alice.producer_id, alice.epoch
        alice.producer_id, alice.epoch = bob.producer_id, bob.epoch
        stolen = await alice.try_add(0)
        assert stolen[0] in (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED)
        batches = {
            "another's producer id": ("alice", _of(bob, is_transactional=True)),
            "no transactional id": (None, _of(bob, is_transactional=True)),
            "no flag": (None, _of(bob, is_transactional=False)),
            "a marker": (None, _marker(bob)),
            "a marker with an id": ("alice", _marker(bob)),
        }
        for what, (transactional_id, records) in batches.items():
            request = produce_request(records, transactional_id=transactional_id, topic=TOPIC)
            answer = await _answer(running, request)
            assert answer not in (None, ErrorCode.NONE), what
        alice.producer_id, alice.epoch = own_id

        await bob.end(committed=True)
        assert await committed_values(bobs) == [b"a", b"b", b"of bob"]


def _of(producer: Producer, *, is_transactional: bool) -> bytes:
    return batch(
        b"of alice",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=1,
        is_transactional=is_transactional,
    )


def _marker(producer: Producer) -> bytes:
    marker = TransactionMarker(producer.producer_id, producer.epoch, ControlType.ABORT, 0)
    return bytes(encode_marker(marker, 0))


async def _answer(running: RunningBroker, request: Any) -> ErrorCode | None:
    """Alice's answer, on a connection of its own: some requests cost theirs."""
    async with _as(running, "alice") as alice:
        try:
            response = await alice.call(11, request)
        except EOFError:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode(response.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__audit"])
@pytest.mark.parametrize("client_id", ["app", "__admin_client", "audit-1-to-1"])
async def test_internal_topics_are_closed_to_every_client(topic: str, client_id: str) -> None:
    """Tried (SEC-10): to write where coordinators and brokers keep what they know."""
    async with _scene() as running, _as(running, "alice") as alice, _as(running, "root") as root:
        await create(root, topic)
        request = produce(batch(b"forged"), topic=topic)
        alice.send(9, request, client_id=client_id)
        (answer,) = (await alice.answer(9, request)).responses
        assert answer.partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
