"""What handlers may call: one object, built by the server, handed to each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.context import Peer, ReplyPart
from ottla.broker.runtime.later import Later
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from ottla.broker.policy.door import Door
    from ottla.broker.runtime.cluster_admin import ClusterAdmin
    from ottla.broker.runtime.control import ControlReceiver
    from ottla.broker.runtime.features import Features
    from ottla.broker.runtime.groups import GroupCoordinator
    from ottla.broker.runtime.internal_topics import InternalTopics
    from ottla.broker.runtime.metadata import MetadataCache
    from ottla.broker.runtime.partitions import Partitions
    from ottla.broker.runtime.produces import Flushes
    from ottla.broker.runtime.reads import Reads
    from ottla.broker.runtime.replica_moves import ReplicaMoves
    from ottla.broker.runtime.settings import Settings
    from ottla.broker.runtime.transactions import TransactionCoordinator
    from ottla.broker.runtime.txn_partition import MarkerWriter
    from ottla.broker.runtime.txn_verification import Verification
    from ottla.broker.runtime.waiting import Waiting
    from ottla.coordinator.metadata.broker_configs import BrokerConfig
    from ottla.protocol.messages.api_versions import ApiVersion
    from ottla.protocol.ports import Ports


@dataclass(slots=True)
class Services:
    """Lives as long as the broker. Handlers read it; none of them replaces a part."""

    ports: Ports
    node_id: int
    config: BrokerConfig
    settings: Settings
    door: Door
    metadata: MetadataCache
    partitions: Partitions
    reads: Reads
    flushes: Flushes
    waiting: Waiting
    admin: ClusterAdmin
    internal_topics: InternalTopics
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    marker_writer: MarkerWriter
    verification: Verification
    features: Features
    moves: ReplicaMoves
    # The controller's word comes in here, over the wire or not.
    control: ControlReceiver
    # The rows of the ApiVersions answer for that request version.
    advertised: Callable[[int], list[ApiVersion]]


Straight = Callable[
    [Services, Peer, memoryview, int, int],
    Sequence[ReplyPart] | Later[Sequence[ReplyPart]] | None,
]
"""The shorter way of the commonest requests of one API and version: services, peer, frame, where
the header's client id ends, and correlation id, to the answer's parts, perhaps later. They are
empty when none is owed, and None when the request, in which nothing was changed, must take the
ordinary way."""
