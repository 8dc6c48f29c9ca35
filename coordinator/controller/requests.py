"""Builds control requests for brokers from an image and its changes.

LeaderAndIsr goes to the live brokers that hold a replica, UpdateMetadata to all live brokers and
always after it: when a broker can direct a client to a leader, that leader knows that it leads.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING

from ottla.coordinator.controller.events import AnyControlRequest, ControllerEpoch, ControlRequest
from ottla.coordinator.metadata.changes import (
    FULL_UPDATE,
    INCREMENTAL_UPDATE,
    LEADER_DURING_DELETE,
    SECURITY_PROTOCOLS,
)
from ottla.protocol.data_classes import dataclass
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ottla.coordinator.metadata.image import (
        BrokerRegistration,
        MetadataImage,
        PartitionState,
        TopicImage,
    )
    from ottla.coordinator.store.deleted_topics import DeletedTopic

# The epoch that marks a topic under deletion in a request (KIP-570).
EPOCH_DURING_DELETE = -2


@dataclass(frozen=True, slots=True)
class RequestWriter:
    """Created for one decision, with the controller's identity and the image."""

    identity: ControllerEpoch
    image: MetadataImage
    # Node -> replicas that it holds but cannot serve.
    offline: dict[int, set[TopicPartition]] = field(default_factory=dict)

    def announce(
        self, changed: Sequence[TopicPartition], new: frozenset[TopicPartition] = frozenset()
    ) -> Iterator[ControlRequest]:
        """Send changed partitions and live brokers: roles to replicas, metadata to all brokers."""
        assert new.issubset(changed), "a replica that is announced as new may be made"
        changed = [item for item in changed if self._state(item).has_state]
        for node_id in sorted(self.image.brokers):
            held = [item for item in changed if node_id in self._state(item).replicas]
            if held:
                yield self._to(node_id, self._leadership(node_id, held, INCREMENTAL_UPDATE, new))
        yield from self.update(changed)

    def ask(self, node_id: int, items: Sequence[TopicPartition]) -> Iterator[ControlRequest]:
        """Send one broker its roles again, for the sake of its answer."""
        held = [
            item
            for item in items
            if self._state(item).has_state and node_id in self._state(item).replicas
        ]
        if held:
            yield self._to(
                node_id, self._leadership(node_id, held, INCREMENTAL_UPDATE, frozenset())
            )

    def update(self, changed: Sequence[TopicPartition]) -> Iterator[ControlRequest]:
        """Send metadata to all brokers without changing the replicas' roles."""
        yield from self._to_all(self._update(changed, INCREMENTAL_UPDATE))

    def welcome(self, node_id: int) -> Iterator[ControlRequest]:
        """Send one broker everything: live brokers, its roles, all metadata.

        The first of the three lets it reach the leaders that the second one names (C-11)."""
        everything = [
            TopicPartition(name, index)
            for name in sorted(self.image.topics)
            for index in sorted(self.image.topics[name].partitions)
            if self.image.topics[name].partitions[index].has_state
        ]
        held = [item for item in everything if node_id in self._state(item).replicas]
        yield self._to(node_id, self._update([], INCREMENTAL_UPDATE))
        yield self._to(node_id, self._leadership(node_id, held, FULL_UPDATE, frozenset()))
        yield self._to(node_id, self._update(everything, FULL_UPDATE))

    def forget_topics(self, topics: Sequence[TopicImage]) -> Iterator[ControlRequest]:
        """Have brokers delete the replicas of deleted topics, then drop the topics' metadata."""
        for node_id in sorted(self.image.brokers):
            stopped = [
                StopReplicaTopicState(
                    topic.name,
                    [
                        StopReplicaPartitionState(index, EPOCH_DURING_DELETE, True)
                        for index in sorted(topic.partitions)
                        if node_id in topic.partitions[index].replicas
                    ],
                    topic.topic_id,
                )
                for topic in topics
            ]
            held = [topic for topic in stopped if topic.partition_states]
            if held:
                yield self._to(node_id, StopReplicaRequest(topic_states=held))
        request = self._update([], INCREMENTAL_UPDATE)
        request.topic_states = [_gone(topic, self.identity) for topic in topics]
        yield from self._to_all(request)

    def remind(self, node_id: int, deleted: Iterable[DeletedTopic]) -> Iterator[ControlRequest]:
        """Have one broker delete replicas of topics that were deleted during its absence.

        Before ``welcome``: a topic of the same name may exist again."""
        topics = [
            StopReplicaTopicState(
                topic.name,
                [
                    StopReplicaPartitionState(index, EPOCH_DURING_DELETE, True)
                    for index in range(topic.partition_count)
                ],
                topic.topic_id,
            )
            for topic in deleted
        ]
        if topics:
            yield self._to(node_id, StopReplicaRequest(topic_states=topics))

    def stop(
        self, node_id: int, items: Sequence[TopicPartition], *, delete: bool
    ) -> Iterator[ControlRequest]:
        """Have a live broker stop replicas, and delete those that it no longer holds.

        With the leader epoch, so that a late request does not delete a later assignment (C-10).
        """
        if not items or node_id not in self.image.brokers:
            return
        # Acknowledged records may be on the replicas of the ISR only.
        assert all(node_id not in self._state(item).isr for item in items)
        assert not delete or all(node_id not in self._state(item).target for item in items)
        topics = [
            StopReplicaTopicState(
                topic.name,
                [
                    StopReplicaPartitionState(
                        item.partition, self._state(item).leader_epoch, delete
                    )
                    for item in partitions
                ],
            )
            for topic, partitions in self._by_topic(items)
        ]
        yield self._to(node_id, StopReplicaRequest(topic_states=topics))

    def _to_all(self, request: UpdateMetadataRequest) -> Iterator[ControlRequest]:
        for node_id in sorted(self.image.brokers):
            # The lists are shared: 100 brokers times 10 000 partitions are many.
            yield self._to(
                node_id,
                UpdateMetadataRequest(
                    type=request.type,
                    topic_states=request.topic_states,
                    live_brokers=request.live_brokers,
                ),
            )

    def _to(self, node_id: int, request: AnyControlRequest) -> ControlRequest:
        request.controller_id = self.identity.node_id
        request.controller_epoch = self.identity.epoch
        request.broker_epoch = self.image.brokers[node_id].generation
        return ControlRequest(node_id, request)

    def _state(self, item: TopicPartition) -> PartitionState:
        return self.image.topics[item.topic].partitions[item.partition]

    def _by_topic(
        self, items: Iterable[TopicPartition]
    ) -> Iterator[tuple[TopicImage, list[TopicPartition]]]:
        grouped: dict[str, list[TopicPartition]] = defaultdict(list)
        for item in items:
            grouped[item.topic].append(item)
        for name, partitions in grouped.items():
            yield self.image.topics[name], partitions

    def _leadership(
        self,
        node_id: int,
        items: Sequence[TopicPartition],
        kind: int,
        new: frozenset[TopicPartition],
    ) -> LeaderAndIsrRequest:
        # A broker makes a replica that it is given a role in.
        assert all(node_id in self._state(item).replicas for item in items)
        leaders = sorted({self._state(item).leader for item in items} & self.image.brokers.keys())
        return LeaderAndIsrRequest(
            type=kind,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic.name,
                    topic.topic_id,
                    [
                        self._role(item, item in new or self._is_to_come(item, node_id))
                        for item in partitions
                    ],
                )
                for topic, partitions in self._by_topic(items)
            ],
            live_leaders=[_live_leader(self.image.brokers[one]) for one in leaders],
        )

    def _is_to_come(self, item: TopicPartition, node_id: int) -> bool:
        """Whether the replica is being moved there, and has not arrived: it may have to be made."""
        state = self._state(item)
        return node_id in state.adding and node_id not in state.isr

    def _role(self, item: TopicPartition, is_new: bool) -> LeaderAndIsrPartitionState:
        state = self._state(item)
        assert state.has_state, "its epochs would be lower than any that a broker knows"
        return LeaderAndIsrPartitionState(
            partition_index=item.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=list(state.replicas),
            adding_replicas=list(state.adding),
            removing_replicas=list(state.removing),
            is_new=is_new,
            leader_recovery_state=int(state.is_recovering),
            eligible_leaders=list(state.eligible_leaders),
        )

    def _update(self, items: Sequence[TopicPartition], kind: int) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            type=kind,
            topic_states=[
                UpdateMetadataTopicState(
                    topic.name, topic.topic_id, [self._known(item) for item in partitions]
                )
                for topic, partitions in self._by_topic(items)
            ],
            live_brokers=[
                _live_broker(self.image.brokers[node_id]) for node_id in sorted(self.image.brokers)
            ],
        )

    def _known(self, item: TopicPartition) -> UpdateMetadataPartitionState:
        state = self._state(item)
        assert state.has_state, "brokers would take it for a leadership that was lost"
        return UpdateMetadataPartitionState(
            partition_index=item.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            zk_version=state.partition_epoch,
            eligible_leaders=list(state.eligible_leaders),
            replicas=list(state.replicas),
            offline_replicas=[
                node_id
                for node_id in state.replicas
                if node_id not in self.image.brokers or item in self.offline.get(node_id, ())
            ],
        )


def _gone(topic: TopicImage, identity: ControllerEpoch) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic.name,
        topic.topic_id,
        [
            UpdateMetadataPartitionState(
                partition_index=index,
                controller_epoch=identity.epoch,
                leader=LEADER_DURING_DELETE,
                leader_epoch=topic.partitions[index].leader_epoch,
                replicas=list(topic.partitions[index].replicas),
            )
            for index in sorted(topic.partitions)
        ],
    )


def _live_leader(broker: BrokerRegistration) -> LeaderAndIsrLiveLeader:
    # Followers look the leader's listener up in their metadata; this is for other readers only.
    if not broker.endpoints:
        return LeaderAndIsrLiveLeader(broker.node_id, "", -1)
    end = broker.endpoints[0]
    return LeaderAndIsrLiveLeader(broker.node_id, end.host, end.port)


def _live_broker(broker: BrokerRegistration) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.node_id,
        endpoints=[
            UpdateMetadataEndpoint(
                end.port, end.host, end.listener, _protocol_number(end.security_protocol)
            )
            for end in broker.endpoints
        ],
        rack=broker.rack,
    )


def _protocol_number(name: str) -> int:
    return SECURITY_PROTOCOLS.index(name) if name in SECURITY_PROTOCOLS else 0
