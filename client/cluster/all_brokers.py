"""Compares the topic ids that all brokers of a cluster report, because a single one may be stale.

A broker that receives no updates any more still answers: it names former leaders, and topics that
have been deleted and recreated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from ottla.client.cluster.cluster import AUTO_CREATE_VERSION, METADATA
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID, Uuid
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.errors import BrokerUnreachable, ClientError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.cluster.metadata import BrokerView
    from ottla.protocol.messages.metadata import MetadataResponse


async def ask_all(cluster: ClusterClient, topics: Iterable[str]) -> dict[str, Uuid | None]:
    """Ask all reachable brokers, within the time of a call; return the ids as ``agreed_ids``.

    The cluster then knows the newest leaders reported for topics with these ids (KIP-232). Raises
    ClientError if none answers."""
    names = sorted(topics)
    await cluster.refresh_if_stale()
    known = cluster.metadata
    brokers = [known.brokers[node_id] for node_id in sorted(known.brokers)]
    answers = await asyncio.gather(*(ask(cluster, broker, names) for broker in brokers))
    found = [answer for answer in answers if not isinstance(answer, ClientError)]
    if not found:
        raise next(answer for answer in answers if isinstance(answer, ClientError))
    agreed = agreed_ids(found, len(brokers), names)
    for answer in found:
        # Epochs of another topic with that name must not count: they might look newer.
        answer.topics = [
            topic
            for topic in answer.topics
            if topic.error_code == ErrorCode.NONE and agreed.get(topic.name or "") == topic.topic_id
        ]
        if answer.topics:
            # A stale broker's list of brokers, and its controller, must not replace the known ones.
            answer.brokers, answer.controller_id = [], known.controller_id
            known.apply(answer, cluster.environment.clock.now_ms())
    return agreed


async def ask(
    cluster: ClusterClient, broker: BrokerView, names: Iterable[str]
) -> MetadataResponse | ClientError:
    """Return one broker's answer about the topics, or its error."""
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
    try:
        async with cluster.in_time():
            try:
                connection = await cluster.pool.connection(broker.node_id)
            except KeyError:
                return BrokerUnreachable(broker.address, "it has left the cluster")
            may_forbid = connection.version_of(METADATA) >= AUTO_CREATE_VERSION
            request.allow_auto_topic_creation = not may_forbid
            return await connection.send(METADATA, request)
    except ClientError as error:
        return error


def agreed_ids(
    answers: Iterable[MetadataResponse], broker_count: int, topics: Iterable[str]
) -> dict[str, Uuid | None]:
    """Return the id that more than half of the brokers report for each topic.

    ``ZERO_UUID`` if they know no ids; None without a majority, since then some broker is stale and
    it is unknown which. Brokers that do not answer count as well: those that do may be the stale
    ones."""
    votes: dict[str, Counter[Uuid]] = {name: Counter() for name in topics}
    for answer in answers:
        for topic in answer.topics:
            if topic.error_code == ErrorCode.NONE and topic.name in votes:
                votes[topic.name][topic.topic_id] += 1
    agreed: dict[str, Uuid | None] = {}
    for name, counted in votes.items():
        ((topic_id, count),) = counted.most_common(1) or [(ZERO_UUID, 0)]
        agreed[name] = topic_id if 2 * count > broker_count else None
    return agreed


async def certain_ids(cluster: ClusterClient, topics: Iterable[str]) -> dict[str, Uuid]:
    """As ``ask_all``, but raise RequestRefused, which is retriable, while there is no agreement."""
    ids: dict[str, Uuid] = {}
    for topic, topic_id in (await ask_all(cluster, topics)).items():
        if topic_id is None:
            raise RequestRefused(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                "too few brokers agree which topic of that name there is",
                topic=topic,
            )
        ids[topic] = topic_id
    return ids
