"""DescribeConfigs of a broker, for ``ottla trace produce`` and ``fetch``: the steps of a request.

The name ``ottla.trace.PARTITION.OFFSET.TOPIC`` begins to watch the partition and the requests of
the asking client id for half a minute, and tells when this broker has done which step about the
offset; -1 only begins. It needs DESCRIBE_CONFIGS for the cluster, which settings of brokers need in
any case, and DESCRIBE for the topic.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.configs import ConfigSource
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_configs import DescribeConfigsResourceResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

NAME = re.compile(r"ottla\.trace\.(\d{1,10})\.(-1|\d{1,19})\.(.{1,249})", re.ASCII)
# Each looks through some thousand marks.
NAMES_MAX = 8


def traced(
    services: Services, context: RequestContext, names: Sequence[str], count: int
) -> Iterator[DescribeConfigsResourceResult]:
    """Yield what is asked for by name; ``count`` is that of the whole request. Raises
    KafkaError."""
    asked = [found for found in map(NAME.fullmatch, names) if found is not None]
    if asked and count > NAMES_MAX:
        text = f"a request may ask for {NAMES_MAX} traces, not for {count}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    for found in asked:
        partition, offset, topic = int(found[1]), int(found[2]), found[3]
        if not services.authorizer.is_allowed(
            context, Operation.DESCRIBE, AclResourceType.TOPIC, topic
        ):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        one = services.partitions.find(topic, partition)
        if one is None:
            raise KafkaError(services.metadata.error_for_missing(topic, partition))
        assert services.traces is not None, "requests come through the network"
        steps = services.traces().of(one, context.client_id, offset)
        yield DescribeConfigsResourceResult(
            name=found[0],
            value=json.dumps(steps),
            read_only=True,
            config_source=ConfigSource.DYNAMIC_BROKER,
        )
