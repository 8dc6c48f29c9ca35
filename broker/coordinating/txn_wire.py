"""Builds requests with transaction markers, and reads the responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.transaction.owed import Parcel


def request_of(parcel: Parcel) -> WriteTxnMarkersRequest:
    """Build the request for a parcel."""
    markers = []
    for order, partitions in parcel.content:
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for name, index in partitions:
            topic = topics.setdefault(name, WritableTxnMarkerTopic(name))
            topic.partition_indexes.append(index)
        markers.append(
            WritableTxnMarker(
                producer_id=order.markers.producer_id,
                producer_epoch=order.markers.producer_epoch,
                transaction_result=order.markers.is_commit,
                topics=list(topics.values()),
                coordinator_epoch=order.coordinator_epoch,
                transaction_version=order.markers.transaction_version,
            )
        )
    return WriteTxnMarkersRequest(markers)


def errors_of(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], ErrorCode]:
    """Return the codes of a response by producer id and partition."""
    return {
        (marker.producer_id, TopicPartition(topic.name, one.partition_index)): error_code(
            one.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for one in topic.partitions
    }
