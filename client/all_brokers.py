"""What every broker of a cluster says of some topics, for those who must not believe a single one.

A broker that does not hear of changes any more answers as ever: it names leaders that have been
replaced, and topics that have been deleted and made anew.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from ottla.client.cluster import AUTO_CREATE_VERSION, METADATA
from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID, Uuid
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ottla.client.cluster import Cluster
    from ottla.protocol.messages.metadata import MetadataResponse


async def ask_all(cluster: Cluster, topics: Iterable[str]) -> list[MetadataResponse]:
    """The answers of all brokers that can be reached in the time of a call, in no order.

    The newest leaders of all that is told are known to the cluster from then on (KIP-232). Raises
    ClientError if none answers."""
    names = sorted(topics)
    await cluster.refresh_if_stale()

    async def ask(node_id: int) -> MetadataResponse | ClientError:
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
        try:
            async with cluster.in_time():
                connection = await cluster.pool.connection(node_id)
                may_forbid = connection.version_of(METADATA) >= AUTO_CREATE_VERSION
                request.allow_auto_topic_creation = not may_forbid
                return await connection.send(METADATA, request)
        except ClientError as error:
            return error

    answers = await asyncio.gather(*map(ask, sorted(cluster.metadata.brokers)))
    found = [answer for answer in answers if not isinstance(answer, ClientError)]
    if not found:
        raise next(answer for answer in answers if isinstance(answer, ClientError))
    known = cluster.metadata
    for answer in found:
        # Who is there, and who controls them, is nothing to be taken from who may be behind.
        answer.brokers, answer.controller_id = [], known.controller_id
        known.apply(answer, cluster.environment.clock.now_ms())
    return found


def agreed_ids(
    answers: Sequence[MetadataResponse], topics: Iterable[str]
) -> dict[str, Uuid | None]:
    """The id that more than half of the answers give each topic, ``ZERO_UUID`` where they know no
    ids; None where there is no such id, since somebody is behind and nobody can say who."""
    votes: dict[str, Counter[Uuid]] = {name: Counter() for name in topics}
    for answer in answers:
        for topic in answer.topics:
            if topic.error_code == ErrorCode.NONE and topic.name in votes:
                votes[topic.name][topic.topic_id] += 1
    agreed: dict[str, Uuid | None] = {}
    for name, counted in votes.items():
        ((topic_id, count),) = counted.most_common(1) or [(ZERO_UUID, 0)]
        agreed[name] = topic_id if 2 * count > len(answers) else None
    return agreed
