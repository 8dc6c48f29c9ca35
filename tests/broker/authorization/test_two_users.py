"""Users who have logged in, with rights of their own, and what the audit log says of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.errors import ErrorCode
from tests.broker.security.test_login import WRONG, log_in
from tests.support.sasl_broker import running_broker, sasl_settings

SETTINGS = sasl_settings(
    authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
    super_users="User:alice;User:ANONYMOUS",
    group_initial_rebalance_delay_ms="0",
    ottla_audit_log="/audit.log",
)


def _as(address: str, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
        **more,
    }


def _rule(kind: ResourceType, name: str, pattern: ResourcePatternType, operation: Any) -> Any:
    return AclBinding(kind, name, pattern, "User:bob", "*", operation, AclPermissionType.ALLOW)


def _produced(address: str, topic: str) -> str | None:
    """The name of the error; None for success."""
    errors: list[Any] = []
    producer = Producer(_as(address, "bob", **{"message.timeout.ms": 20_000}))
    producer.produce(topic, b"x", on_delivery=lambda error, _message: errors.append(error))
    producer.flush(30)
    (error,) = errors
    return None if error is None else str(error.name())


def _consumed(address: str, topic: str, group: str) -> bytes | str:
    """The first value, or the name of the error."""
    settings = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(_as(address, "bob", **settings))
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        return bytes(message.value() or b"") if error is None else str(error.name())
    finally:
        consumer.close()


def _live(address: str) -> None:
    """Alice, a super user, gives Bob rights by librdkafka's client, and takes them back."""
    alice = AdminClient(_as(address, "alice"))
    topics = [NewTopic("b-orders", 1, 1), NewTopic("other", 1, 1)]
    for future in alice.create_topics(topics).values():
        future.result(30)
    prefix, literal = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL
    rules = [
        _rule(ResourceType.TOPIC, "b-", prefix, AclOperation.READ),
        _rule(ResourceType.TOPIC, "b-", prefix, AclOperation.WRITE),
        _rule(ResourceType.GROUP, "g", literal, AclOperation.READ),
    ]
    assert _produced(address, "b-orders") == "TOPIC_AUTHORIZATION_FAILED"
    for future in alice.create_acls(rules).values():
        future.result(30)

    assert _produced(address, "b-orders") is None
    assert _consumed(address, "b-orders", "g") == b"x"
    assert _produced(address, "other") == "TOPIC_AUTHORIZATION_FAILED"
    assert _consumed(address, "b-orders", "h") == "GROUP_AUTHORIZATION_FAILED"

    everything = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY),
        *("User:bob", None, AclOperation.ANY, AclPermissionType.ANY),
    )
    assert set(alice.describe_acls(everything).result(30)) == set(rules)
    bob = AdminClient(_as(address, "bob"))
    # librdkafka shows no error of this request, and no rules either.
    assert bob.describe_acls(everything).result(30) == []
    (deleted,) = alice.delete_acls([everything]).values()
    assert set(deleted.result(30)) == set(rules)
    assert _produced(address, "b-orders") == "TOPIC_AUTHORIZATION_FAILED"


async def test_a_user_does_what_his_rules_allow_and_nothing_else() -> None:
    """With librdkafka's clients, which are unchanged; each step is in the audit log."""
    disk = MemoryDisk()
    async with running_broker(SETTINGS, disk=disk) as running:
        async with running.connect() as stranger:
            answer = await log_in(stranger, WRONG)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        await asyncio.to_thread(_live, str(running.broker.address))
    file = disk.open("/audit.log")
    lines = [json.loads(line) for line in file.pread(file.size_bytes, 0).splitlines()]

    told = {
        (line["event"], line["principal"], line.get("operation"), line.get("resource"))
        for line in lines
    }
    assert {
        ("authentication-failure", "User:ANONYMOUS", None, None),
        ("authentication", "User:alice", None, None),
        ("authentication", "User:bob", None, None),
        ("change", "User:alice", "Alter", "kafka-cluster"),
        ("change", "User:alice", "Create", "b-orders"),
        ("refusal", "User:bob", "Describe", "other"),
        ("refusal", "User:bob", "Describe", "kafka-cluster"),
    } <= told
    (failed,) = [line for line in lines if line["event"] == "authentication-failure"]
    assert (failed["mechanism"], failed["user"]) == ("PLAIN", "alice")
    assert [line["sequence"] for line in lines] == list(range(1, len(lines) + 1))
    assert not any("secret" in json.dumps(line) for line in lines)
