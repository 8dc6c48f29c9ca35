"""The broker encodes its Metadata answer for a topic once; cached bytes equal fresh ones."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.authorization.authorizer import AclAuthorizer, Authorizer
from ottla.broker.authorization.index import AclIndex
from ottla.broker.handlers import metadata_topics
from ottla.broker.handlers.cluster.metadata import handle
from ottla.broker.handlers.metadata_topics import describe_topic, kept_topics
from ottla.broker.metadata.metadata import MetadataCache
from ottla.coordinator.metadata.changes import (
    BrokerChanged,
    BrokerGone,
    Change,
    PartitionChanged,
    TopicChanged,
    TopicGone,
)
from ottla.coordinator.metadata.image import (
    BrokerRegistration,
    Endpoint,
    PartitionState,
    TopicImage,
)
from ottla.protocol.acls import AclPattern, AclResourceType, AclRule, Operation, Permission
from ottla.protocol.compile import encode
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.broker.support.node import HandClock

NAMES = ["__consumer_offsets", "a", "b", "c", "d", "topic-of-a-longer-name"]
LISTENERS = ["INSIDE", "OUTSIDE"]
PRINCIPALS = ["User:root", "User:one", "User:two"]
TOPIC = AclResourceType.TOPIC


def _context(version: int, listener: str, principal: str) -> Any:
    return SimpleNamespace(
        api_version=version, listener=listener, principal=principal, client_host="10.0.0.1"
    )


def _services(metadata: MetadataCache, authorizer: Authorizer) -> Any:
    config = SimpleNamespace(auto_create_topics_enable=False)
    return SimpleNamespace(metadata=metadata, authorizer=authorizer, config=config)


def _state(draw: random.Random) -> PartitionState:
    replicas = tuple(draw.sample(range(1, 5), draw.randint(1, 3)))
    isr = tuple(draw.sample(replicas, draw.randint(1, len(replicas))))
    offline = tuple(one for one in replicas if draw.random() < 0.2)
    leader = draw.choice([*isr, -1])
    return PartitionState(
        replicas, leader, draw.randint(0, 9), isr, draw.randint(0, 9), offline_replicas=offline
    )


def _change(draw: random.Random, metadata: MetadataCache) -> Change:
    kind, name = draw.randrange(6), draw.choice(NAMES)
    if kind == 0:
        ends = tuple(Endpoint(one, one, 9092, "PLAINTEXT") for one in LISTENERS)
        return BrokerChanged(BrokerRegistration(draw.randint(1, 4), ends[: draw.randint(1, 2)]))
    if kind == 1:
        return BrokerGone(draw.randint(1, 4))
    if kind == 2:
        return TopicGone(name)
    if name in metadata.image.topics and kind > 3:
        return PartitionChanged(name, draw.randint(0, 3), _state(draw))
    parts = {index: _state(draw) for index in range(draw.randint(0, 3))}
    return TopicChanged(TopicImage(name, draw.randbytes(16), parts))


def _rules(draw: random.Random) -> AclIndex:
    operations = [Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.ALTER]
    return AclIndex.of(
        AclRule(
            AclPattern(TOPIC, name),
            draw.choice(PRINCIPALS[1:]),
            "*",
            draw.choice(operations),
            draw.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
        )
        for name in draw.sample(NAMES, 4)
    )


def _made_anew(services: Any, context: Any, request: MetadataRequest) -> bytes:
    """The whole answer, by the codec of the message."""
    metadata, authorizer, version = services.metadata, services.authorizer, context.api_version
    response: MetadataResponse = handle(services, context, MetadataRequest(topics=[]))
    names = (
        sorted(metadata.image.topics)
        if request.topics is None
        else [topic.name for topic in request.topics]
    )
    plain: list[Any] = []
    for name in names:
        if not authorizer.may_see(context, Operation.DESCRIBE, TOPIC, name):
            continue
        topic = describe_topic(metadata, metadata.image.topics[name], version, context.listener)
        if request.include_topic_authorized_operations:
            topic.topic_authorized_operations = authorizer.topic_operations(context, name)
        plain.append(topic)
    response.topics = plain
    return encode(response, version)


@pytest.mark.parametrize("seed", range(20))
def test_kept_answers_equal_answers_made_anew(seed: int) -> None:
    """A kept answer that outlives a change sends clients to a broker that does not lead, or shows a
    topic to a client that lost the right to see it."""
    draw = random.Random(seed)
    metadata = MetadataCache(HandClock())
    acls = AclAuthorizer(
        frozenset({"User:root"}), open_without_rules=False, tell=lambda *_told: True
    )
    acls.take(_rules(draw))
    choices = [_services(metadata, acls), _services(metadata, Authorizer())]
    for _ in range(120):
        if draw.random() < 0.05:
            metadata.begin("anew", 1)
        elif draw.random() < 0.1:
            acls.take(_rules(draw))
        else:
            metadata.take([_change(draw, metadata)])
        for _ in range(4):
            context = _context(draw.randint(1, 13), draw.choice(LISTENERS), draw.choice(PRINCIPALS))
            services = draw.choice(choices)
            request = MetadataRequest(include_topic_authorized_operations=draw.random() < 0.5)
            if draw.random() < 0.3:
                authorizer = services.authorizer
                request.topics = [
                    MetadataRequestTopic(name=name)
                    for name in draw.sample(NAMES, 3)
                    if name in metadata.image.topics
                    and authorizer.may_see(context, Operation.DESCRIBE, TOPIC, name)
                ]
            else:
                request.topics = None
            if context.api_version < metadata_topics.OPERATIONS_VERSION:
                request.include_topic_authorized_operations = False

            found = encode(handle(services, context, request), context.api_version)

            assert found == _made_anew(services, context, request)


def test_a_topic_is_encoded_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of topics that clients ask for again and again take no time for each."""
    made: list[str] = []

    def counted(metadata: Any, topic: TopicImage, *kind: Any) -> Any:
        made.append(topic.name)
        return describe_topic(metadata, topic, *kind)

    monkeypatch.setattr(metadata_topics, "describe_topic", counted)
    metadata = MetadataCache(HandClock())
    metadata.take([TopicChanged(TopicImage(name, name.encode() * 16, {})) for name in "abc"])
    services, context = _services(metadata, Authorizer()), _context(12, "INSIDE", "User:one")
    asked = [
        kept_topics(metadata).every(services, context, with_operations=False) for _ in range(2)
    ]
    assert asked[0] is asked[1]
    assert made == ["a", "b", "c"]

    metadata.take([PartitionChanged("b", 0, PartitionState((1,), 1, 0, (1,)))])
    handle(services, context, MetadataRequest(topics=None))

    assert made == ["a", "b", "c", "b"]


def test_what_is_kept_is_bounded() -> None:
    """Each principal of a cluster has a view of its own, and a cluster may have thousands."""
    metadata = MetadataCache(HandClock())
    acls = AclAuthorizer(frozenset(), open_without_rules=True, tell=lambda *_told: True)
    acls.take(AclIndex())
    services = _services(metadata, acls)
    kept = kept_topics(metadata)
    for number in range(40):
        context = _context(number % 13, f"L{number}", f"User:{number}")
        kept.every(services, context, with_operations=False)
        kept.every(services, _context(5, "L", f"User:{number}"), with_operations=True)

    forms = kept._forms

    assert len(forms) <= metadata_topics.FORMS_MAX
    assert max(len(form.views) for form in forms.values()) <= metadata_topics.VIEWS_MAX


def test_what_is_kept_has_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight lists in eight forms of a large cluster once took hundreds of megabytes."""
    metadata = MetadataCache(HandClock())
    ends = (Endpoint("INSIDE", "INSIDE", 9092, "PLAINTEXT"),)
    metadata.take([BrokerChanged(BrokerRegistration(1, ends))])
    state = PartitionState((1,), 1, 0, (1,), 0)
    names = [f"topic-{number}" for number in range(20)]
    metadata.take(TopicChanged(TopicImage(name, b"1" * 16, {0: state})) for name in names)
    services = _services(metadata, Authorizer())
    kept = kept_topics(metadata)
    request = MetadataRequest(topics=None, include_topic_authorized_operations=True)

    def ask(version: int) -> list[str]:
        context = _context(version, "INSIDE", "User:one")
        answer = handle(services, context, request)
        assert len(answer.topics) == 20
        return [str(form) for form in kept._forms]

    ask(12)
    one_form = kept.kept_bytes
    assert one_form > 20 * metadata_topics.TOPIC_BYTES
    monkeypatch.setattr(metadata_topics, "KEPT_BYTES_MAX", int(2.5 * one_form))
    for version in (8, 9, 10, 11, 12):
        ask(version)
        assert kept.kept_bytes <= metadata_topics.KEPT_BYTES_MAX
    assert ask(12) == ["(11, 'INSIDE')", "(12, 'INSIDE')"]

    # Not even one list fits; then not even the topics.
    monkeypatch.setattr(metadata_topics, "KEPT_BYTES_MAX", int(0.7 * one_form))
    ask(10)
    assert 0 < kept.kept_bytes <= metadata_topics.KEPT_BYTES_MAX
    monkeypatch.setattr(metadata_topics, "KEPT_BYTES_MAX", 100)
    assert ask(10) == []
    assert kept.kept_bytes == 0


def test_what_changes_gives_its_bytes_back() -> None:
    """A count that only grows would end all keeping after some days."""
    metadata = MetadataCache(HandClock())
    metadata.take([BrokerChanged(BrokerRegistration(1, ()))])
    services = _services(metadata, Authorizer())
    kept = kept_topics(metadata)
    sizes = set()
    for number in range(5):
        state = PartitionState((1,), 1, number, (1,), number)
        metadata.take([TopicChanged(TopicImage("t", b"1" * 16, {0: state}))])
        handle(services, _context(12, "INSIDE", "User:one"), MetadataRequest(topics=None))
        sizes.add(kept.kept_bytes)

    assert len(sizes) == 1
    metadata.take([TopicGone("t")])
    assert kept.kept_bytes == 0
