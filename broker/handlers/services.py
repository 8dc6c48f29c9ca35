"""What handlers may call: one object, built by the server, handed to each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.engine.context import ClientPeer, ReplyPart
from ottla.broker.engine.deferred import DeferredAnswer
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from ottla.broker.administration.cluster_admin import ClusterAdmin
    from ottla.broker.authorization.authorizer import Authorizer
    from ottla.broker.authorization.store import AclStore
    from ottla.broker.coordinating.groups import GroupCoordinator
    from ottla.broker.coordinating.internal_topics import InternalTopics
    from ottla.broker.coordinating.transactions import TransactionCoordinator
    from ottla.broker.coordinating.txn_partition import MarkerWriter
    from ottla.broker.coordinating.txn_verification import Verification
    from ottla.broker.directories.replica_moves import ReplicaMoves
    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.housekeeping.progress_watch import ProgressWatch
    from ottla.broker.metadata.features import FinalizedFeatures
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.metadata.settings import Settings
    from ottla.broker.partitions.control import ControlReceiver
    from ottla.broker.partitions.partitions import Partitions
    from ottla.broker.partitions.produces import Flushes
    from ottla.broker.partitions.reads import Reads
    from ottla.broker.partitions.refused_batches import RefusalLog
    from ottla.broker.quotas.quotas import Quotas
    from ottla.broker.security.logins import Logins
    from ottla.broker.security.token_store import TokenStore
    from ottla.broker.telemetry.receiver import ClientTelemetry
    from ottla.broker.tracing.one_request import RequestTraces
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.messages.api_versions import ApiVersion
    from ottla.protocol.ports import Ports


@dataclass(slots=True)
class Services:
    """Lives as long as the broker. Handlers read it; none of them replaces a part."""

    ports: Ports
    node_id: int
    config: BrokerConfig
    settings: Settings
    authorizer: Authorizer
    # None without an authorizer.
    acls: AclStore | None
    quotas: Quotas
    metadata: MetadataCache
    partitions: Partitions
    reads: Reads
    flushes: Flushes
    refusal_log: RefusalLog
    waiting: Purgatory
    admin: ClusterAdmin
    # The session with the metadata store. Raises KafkaError while there is none.
    session: Callable[[], MetadataSession]
    internal_topics: InternalTopics
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    marker_writer: MarkerWriter
    logins: Logins
    # None without a secret for them.
    tokens: TokenStore | None
    verification: Verification
    features: FinalizedFeatures
    moves: ReplicaMoves
    # The controller's word comes in here, over the wire or not.
    control: ControlReceiver
    # The rows of the ApiVersions answer for that request version.
    advertised: Callable[[int], list[ApiVersion]]
    # None: the broker takes no metrics of clients.
    telemetry: ClientTelemetry | None = None
    # None: the broker does not remember the progress of replicas.
    progress: ProgressWatch | None = None
    # Loads what traces single requests; None before the network is there.
    traces: Callable[[], RequestTraces] | None = None


StraightAnswer = Sequence[ReplyPart] | DeferredAnswer[Sequence[ReplyPart]] | None
Straight = Callable[[Services, ClientPeer, memoryview, int, int], StraightAnswer]
"""The shorter way of the commonest requests of one API and version: services, peer, frame, where
the header's client id ends, and correlation id, to the answer's parts, perhaps later. They are
empty when none is owed, and None when the request, in which nothing was changed, must take the
ordinary way."""
