"""What several handlers share.

OffsetCommit and TxnOffsetCommit: some partitions are refused at sight, the group's machine judges
the others, and the answer names all of them in the order of the request."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.coordinator.configs.broker_principals import may_speak_as
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

logger = logging.getLogger("ottla.security")

NOT_OF_BROKERS = "the listener is not the one that brokers use among themselves"
BOUND = "ottla.broker.principals does not"

TopicAndIndex = tuple[str, int]
ErrorOf = dict[TopicAndIndex, int]


class Topic(Protocol):
    """Of a request or an answer; its partitions have a ``partition_index``."""

    name: str
    partitions: Any


AnyTopic = TypeVar("AnyTopic", bound=Topic)
Made = TypeVar("Made", covariant=True)


class MakeTopic(Protocol[Made]):
    """The class of an answer's topics."""

    def __call__(self, *, name: str, partitions: list[Any]) -> Made: ...


class MakePart(Protocol):
    """The class of their partitions."""

    def __call__(self, *, partition_index: int, error_code: int) -> object: ...


def is_from_broker(services: Services, context: RequestContext, node_id: int) -> bool:
    """Whether a request may do what only that broker does: it came by the listener of brokers, its
    sender may act for the cluster, and may be that broker (``ottla.broker.principals``)."""
    return may_act_for_cluster(services, context) and is_principal_of(services, context, node_id)


def may_act_for_cluster(services: Services, context: RequestContext) -> bool:
    """Whether a request came by the listener of brokers, or one that counts as such for a time
    (``ottla.inter.broker.listeners``), and its sender may act for the cluster."""
    if not _is_of_brokers(services, context):
        services.authorizer.refused(context, NOT_OF_BROKERS)
        return False
    return services.authorizer.is_allowed(
        context, Operation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME
    )


def seems_broker(services: Services, context: RequestContext) -> bool:
    """The same, where a refusal is no event of its own."""
    return _is_of_brokers(services, context) and services.authorizer.may_see(
        context, Operation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME
    )


def _is_of_brokers(services: Services, context: RequestContext) -> bool:
    config, listener = services.config, context.listener
    return (
        listener == config.inter_broker_listener_name or listener in config.inter_broker_listeners
    )


def is_principal_of_any(services: Services, context: RequestContext) -> bool:
    """Whether the sender may be one of the brokers that are registered."""
    templates, principal = services.config.broker_principals, context.principal
    if not templates:
        return True
    brokers = services.metadata.image.brokers
    if any(may_speak_as(templates, principal, node_id) for node_id in brokers):
        return True
    _tell_once(principal, -1, templates)
    services.authorizer.refused(context, f"{BOUND} let it speak as any broker")
    return False


def is_principal_of(services: Services, context: RequestContext, node_id: int) -> bool:
    """Whether the sender may be that broker; a refusal is told to the operator."""
    templates = services.config.broker_principals
    if may_speak_as(templates, context.principal, node_id):
        return True
    _tell_once(context.principal, node_id, templates)
    services.authorizer.refused(context, f"{BOUND} let it speak as broker {node_id}")
    return False


@lru_cache(maxsize=256)
def _tell_once(principal: str, node_id: int, templates: str) -> None:
    logger.warning(
        "%s spoke as %s and was refused: ottla.broker.principals is %s",
        principal,
        f"broker {node_id}" if node_id >= 0 else "a broker",
        templates,
    )


def refused_parts(services: Services, context: RequestContext, topics: Iterable[Topic]) -> ErrorOf:
    """The partitions that the caller may not commit, or that are not there, and why."""
    refused: ErrorOf = {}
    for topic in topics:
        allowed = services.authorizer.is_allowed(
            context, Operation.READ, AclResourceType.TOPIC, topic.name
        )
        image = services.metadata.topic(topic.name)
        for part in topic.partitions:
            key = topic.name, part.partition_index
            if not allowed:
                refused[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image is None or part.partition_index not in image.partitions:
                refused[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def without(topics: Iterable[AnyTopic], refused: Mapping[TopicAndIndex, int]) -> list[AnyTopic]:
    """What is left of them."""
    left = []
    for topic in topics:
        kept = copy(topic)
        kept.partitions = [
            part for part in topic.partitions if (topic.name, part.partition_index) not in refused
        ]
        if kept.partitions:
            left.append(kept)
    return left


def with_verdicts(
    refused: Mapping[TopicAndIndex, int], answered: Iterable[Topic]
) -> Callable[[TopicAndIndex], int]:
    """The error of every partition, when the machine has answered about what was left.

    Asked in the order of the request: one that is named twice has a verdict for each."""
    verdicts: dict[TopicAndIndex, deque[int]] = defaultdict(deque)
    for topic in answered:
        for part in topic.partitions:
            verdicts[topic.name, part.partition_index].append(part.error_code)

    def error_of(key: TopicAndIndex) -> int:
        error = refused.get(key)
        return verdicts[key].popleft() if error is None else error

    return error_of


def in_order(
    topics: Iterable[Topic],
    error_of: Callable[[TopicAndIndex], int],
    make_topic: MakeTopic[Made],
    make_part: MakePart,
) -> list[Made]:
    """The answer's topics, in the shape and order of the request; those without partitions are left
    out."""
    return [
        make_topic(
            name=topic.name,
            partitions=[
                make_part(
                    partition_index=part.partition_index,
                    error_code=error_of((topic.name, part.partition_index)),
                )
                for part in topic.partitions
            ],
        )
        for topic in topics
        if topic.partitions
    ]
