"""Paths and payloads of the store's tree: Kafka's znode layout.

Parsers accept old versions, and return None for unusable payloads. Not Kafka's: ``/ottla``, broker
and clean stop epoch in a registration, eligible leaders in a state.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.coordinator.store import entities, znode
from ottla.protocol.ids import TopicPartition, Uuid, uuid_from_text, uuid_to_text
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"
GENERATIONS = "/ottla/generations"
SEEN_GENERATIONS = "/ottla/seen_generations"
DELETED_TOPICS = "/ottla/deleted_topics"
FULL_DISKS = "/ottla/full_disks"

# Created at every broker's start if they are missing, parents first.
PERMANENT_PATHS = (
    "/admin",
    DELETE_TOPICS,
    "/brokers",
    BROKER_IDS,
    BROKER_SEQUENCE,
    TOPICS,
    "/cluster",
    CONFIG,
    "/config/brokers",
    CONFIG_CHANGES,
    *(f"/config/{kind}" for kind in ("client-metrics", "clients", "groups", "ips")),
    "/config/topics",
    "/config/users",
    "/consumers",
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/ottla",
    GENERATIONS,
    SEEN_GENERATIONS,
    DELETED_TOPICS,
    FULL_DISKS,
)

_NOBODY: Mapping[int, tuple[int, ...]] = MappingProxyType({})
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def broker(node_id: int) -> str:
    return f"{BROKER_IDS}/{node_id}"


def generation(node_id: int) -> str:
    """Its data version is the broker's epoch."""
    return f"{GENERATIONS}/{node_id}"


def seen_generation(node_id: int) -> str:
    """The last generation of the broker that a controller has handled."""
    return f"{SEEN_GENERATIONS}/{node_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}"


def state(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}/state"


def consumer_offset(group_id: str, topic_name: str, index: int) -> str:
    """The position of a group in a partition, as consumers of Kafka 0.8 store it: digits."""
    return f"/consumers/{group_id}/offsets/{topic_name}/{index}"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def config(entity_type: str, name: str) -> str:
    """The znode of one entity's configuration; types are Kafka's plurals: topics, brokers..."""
    return f"{CONFIG}/{entity_type}/{entities.encode(entity_type, name)}"


class EndpointPayload(NamedTuple):
    """One listener of a registered broker, as clients should connect to it."""

    listener: str
    host: str
    port: int
    security_protocol: str


class BrokerPayload(NamedTuple):
    """A broker's registration.

    ``generation`` is the data version that its generation znode got in the same group; read from
    there, it could be another registration's. ``clean_stop_epoch`` is the first generation since
    which nothing was lost; -1 when the last stop was not clean (KIP-966). ``features``: first and
    last level of each feature that the broker supports (KIP-584)."""

    endpoints: tuple[EndpointPayload, ...]
    rack: str | None = None
    timestamp_ms: int = 0
    generation: int = -1
    clean_stop_epoch: int = -1
    features: znode.Ranges = znode.NO_RANGES


class TopicPayload(NamedTuple):
    """A topic's assignment. ``topic_id`` is None if Kafka before 2.8 wrote it."""

    topic_id: Uuid | None
    partitions: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]] = _NOBODY
    removing: Mapping[int, tuple[int, ...]] = _NOBODY


class StatePayload(NamedTuple):
    """A partition's leadership; leader -1 means none."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    is_recovering: bool = False
    eligible_leaders: tuple[int, ...] = ()


class ProducerIdBlock(NamedTuple):
    """Ids that one broker may assign, both ends included."""

    broker: int
    first: int
    last: int


def build_broker(payload: BrokerPayload) -> bytes:
    plain = next((end for end in payload.endpoints if end.security_protocol == "PLAINTEXT"), None)
    value: dict[str, object] = {
        "version": 5,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": -1,
        "timestamp": str(payload.timestamp_ms),
        "endpoints": [f"{e.listener}://{_bracketed(e.host)}:{e.port}" for e in payload.endpoints],
        "listener_security_protocol_map": {
            end.listener: end.security_protocol for end in payload.endpoints
        },
        "features": znode.build_ranges(payload.features),
    }
    if payload.rack is not None:
        value["rack"] = payload.rack
    if payload.generation >= 0:
        value["broker_epoch"] = payload.generation
    if payload.clean_stop_epoch >= 0:
        value["clean_stop_epoch"] = payload.clean_stop_epoch
    return znode.build(value)


def parse_broker(data: bytes) -> BrokerPayload | None:
    value = znode.parse(data)
    try:
        protocols = value.get("listener_security_protocol_map") or {}
        uris = value.get("endpoints") or [f"PLAINTEXT://{value['host']}:{value['port']}"]
        return BrokerPayload(
            tuple(_endpoint(uri, protocols) for uri in uris),
            value.get("rack"),
            int(value.get("timestamp", 0)),
            int(value.get("broker_epoch", -1)),
            int(value.get("clean_stop_epoch", -1)),
            znode.ranges_of(value.get("features") or {}),
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def _endpoint(uri: str, protocols: Mapping[str, str]) -> EndpointPayload:
    listener, _, address = uri.partition("://")
    host, _, port = address.rpartition(":")
    return EndpointPayload(listener, host.strip("[]"), int(port), protocols.get(listener, listener))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def build_topic(payload: TopicPayload) -> bytes:
    value: dict[str, object] = {
        "version": 2 if payload.topic_id is None else 3,
        "partitions": znode.named(payload.partitions),
        "adding_replicas": znode.named(payload.adding),
        "removing_replicas": znode.named(payload.removing),
    }
    if payload.topic_id is not None:
        value["topic_id"] = uuid_to_text(payload.topic_id)
    return znode.build(value)


def parse_topic(data: bytes) -> TopicPayload | None:
    value = znode.parse(data)
    try:
        text = value.get("topic_id")
        return TopicPayload(
            uuid_from_text(text) if text else None,
            znode.numbered(value["partitions"]),
            znode.numbered(value.get("adding_replicas") or {}),
            znode.numbered(value.get("removing_replicas") or {}),
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def build_state(payload: StatePayload) -> bytes:
    # Formatted by hand, since all values are numbers: a failover builds thousands of these.
    leader, leader_epoch, isr, controller_epoch, is_recovering, eligible = payload
    text = f'{{"version":1,"leader":{leader},"leader_epoch":{leader_epoch},"controller_epoch":'
    text += f'{controller_epoch},"isr":[{",".join(map(str, isr))}]'
    text += ',"leader_recovery_state":1' if is_recovering else ""
    text += f',"eligible_leaders":[{",".join(map(str, eligible))}]' if eligible else ""
    return f"{text}}}".encode()


def parse_state(data: bytes) -> StatePayload | None:
    value = znode.parse(data)
    try:
        return StatePayload(
            int(value["leader"]),
            int(value["leader_epoch"]),
            znode.ids_of(value["isr"]),
            int(value.get("controller_epoch", 0)),
            bool(value.get("leader_recovery_state", 0)),
            znode.ids_of(value.get("eligible_leaders", ())),
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def build_cluster_id(cluster_id: str) -> bytes:
    return znode.build({"version": "1", "id": cluster_id})


def parse_cluster_id(data: bytes) -> str | None:
    found = znode.parse(data).get("id")
    return found if isinstance(found, str) and found else None


def build_controller(node_id: int, wall_ms: int) -> bytes:
    return znode.build({"version": 1, "brokerid": node_id, "timestamp": str(wall_ms)})


def parse_controller(data: bytes) -> int | None:
    return znode.number_of(znode.parse(data).get("brokerid"))


def build_number(number: int) -> bytes:
    """Decimal text: the controller epoch, or a handled generation."""
    return str(number).encode()


def parse_number(data: bytes) -> int | None:
    return znode.number_of(data.decode("ascii", "replace"))


def build_incarnation(incarnation: str, home: str = "") -> bytes:
    """Which process registered this generation of the broker, and with which data directory."""
    return znode.build({"version": 1, "incarnation": incarnation, "home": home})


def parse_incarnation(data: bytes) -> str | None:
    found = znode.parse(data).get("incarnation")
    return found if isinstance(found, str) else None


def parse_home(data: bytes) -> str:
    """The id of the registered broker's data directory; empty if the registration has none."""
    found = znode.parse(data).get("home")
    return found if isinstance(found, str) else ""


def build_config(values: Mapping[str, str]) -> bytes:
    return znode.build({"version": 1, "config": dict(values)})


def parse_config(data: bytes) -> dict[str, str] | None:
    found = znode.parse(data).get("config")
    if not isinstance(found, dict):
        return None
    return {str(name): str(value) for name, value in found.items() if value is not None}


def build_config_change(entity_type: str, name: str) -> bytes:
    encoded = entities.encode(entity_type, name)
    return znode.build({"version": 2, "entity_path": f"{entity_type}/{encoded}"})


def parse_config_change(data: bytes) -> tuple[str, str] | None:
    """Return entity type and name of the changed settings, in the form of ``entities.py``."""
    value = znode.parse(data)
    match value.get("entity_path"), value.get("entity_type"), value.get("entity_name"):
        case str(entity_path), _, _ if "/" in entity_path:
            entity_type, _, encoded = entity_path.partition("/")
        case _, str(entity_type), str(encoded):
            # Version 1 has plain names of topics and quoted ones of clients.
            if entity_type not in entities.QUOTED_TYPES:
                return entity_type, encoded
        case _:
            return None
    if entity_type in entities.QUOTED_TYPES and not entities.is_well_formed(entity_type, encoded):
        return None
    return entity_type, entities.decode(entity_type, encoded)


def build_partition_list(changed: Iterable[TopicPartition]) -> bytes:
    """The partitions of an ISR notification or of a preferred election."""
    listed = [{"topic": item.topic, "partition": item.partition} for item in changed]
    return znode.build({"version": 1, "partitions": listed})


def parse_partition_list(data: bytes) -> list[TopicPartition] | None:
    try:
        return [
            TopicPartition(str(item["topic"]), int(item["partition"]))
            for item in znode.parse(data)["partitions"]
        ]
    except (KeyError, ValueError, TypeError):
        return None


def build_moves(moves: Mapping[TopicPartition, Iterable[int]]) -> bytes:
    """The partitions to be moved, each with its new replicas."""
    listed = [{**item._asdict(), "replicas": list(to)} for item, to in moves.items()]
    return znode.build({"version": 1, "partitions": listed})


def parse_moves(data: bytes) -> dict[TopicPartition, tuple[int, ...]] | None:
    try:
        items = parse_partition_list(data) or ()
        targets = [znode.ids_of(one["replicas"]) for one in znode.parse(data)["partitions"]]
        return dict(zip(items, targets, strict=True))
    except (KeyError, ValueError, TypeError):
        return None


def build_log_dir_event(node_id: int) -> bytes:
    return znode.build({"version": 1, "broker": node_id, "event": 1})


def parse_log_dir_event(data: bytes) -> int | None:
    """The broker that reports a failed log directory; None for any other event."""
    value = znode.parse(data)
    return znode.number_of(value.get("broker")) if value.get("event") == 1 else None


def build_producer_id_block(block: ProducerIdBlock) -> bytes:
    value = {"version": 1, "broker": block.broker}
    return znode.build({**value, "block_start": str(block.first), "block_end": str(block.last)})


def parse_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    value = znode.parse(data)
    try:
        return ProducerIdBlock(
            int(value["broker"]), int(value["block_start"]), int(value["block_end"])
        )
    except (KeyError, ValueError, TypeError):
        return None
