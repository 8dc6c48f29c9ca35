"""Parts of a broker that are made of many others, and what of the configuration each is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.runtime.groups import GroupCoordinator, group_machines
from ottla.broker.runtime.shards import ShardParts
from ottla.broker.runtime.shards_loading import Loader
from ottla.broker.runtime.stalls import StallClock
from ottla.protocol.records.compression import Codec

if TYPE_CHECKING:
    from ottla.broker.runtime.metadata import MetadataCache
    from ottla.broker.runtime.produces import Flushes
    from ottla.broker.runtime.waiting import Waiting
    from ottla.broker.runtime.wheel import TimingWheel
    from ottla.broker.tasks import Tasks
    from ottla.coordinator.metadata.broker_configs import BrokerConfig
    from ottla.protocol.ports import Ports


class Machinery(NamedTuple):
    """What nearly every part runs on."""

    ports: Ports
    config: BrokerConfig
    metadata: MetadataCache
    tasks: Tasks
    waiting: Waiting
    wheel: TimingWheel


def make_groups(machinery: Machinery, flushes: Flushes) -> GroupCoordinator:
    """The coordinator of the groups whose partition this broker leads."""
    ports, config = machinery.ports, machinery.config
    parts = ShardParts(
        clock=ports.clock,
        stalls=StallClock(ports.clock),
        wheel=machinery.wheel,
        waiting=machinery.waiting,
        tasks=machinery.tasks,
        flushes=flushes,
        loader=Loader(ports.clock, ports.offload, machinery.waiting),
        commit_timeout_ms=config.offsets_commit_timeout_ms,
        codec=Codec(config.offsets_topic_compression_codec),
    )
    machines = group_machines(config, machinery.metadata, ports.random.child("groups"))
    return GroupCoordinator(machinery.metadata, machines, parts)
