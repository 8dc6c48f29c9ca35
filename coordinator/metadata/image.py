"""The cluster's metadata at one moment, as values that never change.

The controller decides on an image, every broker answers from one. A newer image shares with the
older one whatever did not change (read ``delta.py``). Dicts inside are never written to.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.ids import Uuid

NO_LEADER = -1
_NOTHING: Mapping[str, str] = MappingProxyType({})
AUDIT_TOPIC = "__audit"
INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", AUDIT_TOPIC}
)

# A topic's setting: messages of format 1 are stored as they came. Such entries prove no lineage, as
# batches with their leader epochs do, so they are never replicated.
KEEP_FORMAT = "ottla.keep.message.format"


def keeps_format(configs: Mapping[str, str]) -> bool:
    """Whether a topic with these settings keeps messages of format 1."""
    return configs.get(KEEP_FORMAT, "").strip().lower() == "true"


class Endpoint(NamedTuple):
    """Where clients of one listener find a broker."""

    listener: str
    host: str
    port: int
    security_protocol: str


class Entity(NamedTuple):
    """What a configuration belongs to; types are Kafka's plurals: topics, brokers, clients."""

    entity_type: str
    name: str


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A live broker. ``generation`` is its broker epoch, -1 where that is not known (KIP-380).

    ``clean_stop_epoch``: the first generation since which no stop and no start has cost it any of
    its data; -1 if its last stop may have (KIP-966)."""

    node_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    generation: int = -1
    clean_stop_epoch: int = -1

    def endpoint(self, listener: str) -> Endpoint | None:
        """The end point of that listener, if the broker has it."""
        return next((end for end in self.endpoints if end.listener == listener), None)

    def has_kept_its_data(self, since_generation: int) -> bool:
        """Whether nothing was lost since that generation; several may lie between."""
        return 0 <= self.clean_stop_epoch <= since_generation < self.generation


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leadership and replicas of one partition.

    ``partition_epoch`` is the data version of the state znode, -1 before there is one. The
    replicas that may lead are the ISR and, after them, ``eligible_leaders`` (KIP-966). During a
    move ``replicas`` are the wanted ones followed by those that are to go."""

    replicas: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    eligible_leaders: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    controller_epoch: int = 0
    is_recovering: bool = False

    @property
    def has_state(self) -> bool:
        """Whether the partition was ever given a leader and an ISR."""
        return self.partition_epoch >= 0

    @property
    def is_moving(self) -> bool:
        """Whether its replicas are being moved to other brokers (KIP-455)."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it has, or will have when the move is done."""
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas that it has, or had before the move."""
        return tuple(one for one in self.replicas if one not in self.adding)

    def is_older_than(self, other: PartitionState) -> bool:
        """Whether the other one is known to come later (C-21)."""
        mine = (self.leader_epoch, self.partition_epoch)
        return mine < (other.leader_epoch, other.partition_epoch)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; a topic of the same name with another id is another topic (KIP-516)."""

    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionState]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        """Of the first partition, as Kafka reports it."""
        return len(self.partitions[min(self.partitions)].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """All of it. ``names`` finds a topic's name by its id."""

    cluster_id: str
    controller_id: int = -1
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    names: Mapping[Uuid, str] = field(default_factory=dict)
    configs: Mapping[Entity, Mapping[str, str]] = field(default_factory=dict)

    def partition(self, topic: str, index: int) -> PartitionState | None:
        """One partition's state, if topic and partition are there."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def config(self, entity_type: str, name: str) -> Mapping[str, str]:
        """What was set for that entity, without any default."""
        return self.configs.get(Entity(entity_type, name), _NOTHING)
