"""Blocks of producer ids: a broker takes one from the store and hands its ids out by itself."""

from __future__ import annotations

from ottla.coordinator.store.paths import (
    ProducerIdBlock,
    build_producer_id_block,
    parse_producer_id_block,
)
from ottla.protocol.errors import ErrorCode, KafkaError

PRODUCER_IDS_PER_BLOCK = 1000
_PRODUCER_ID_MAX = 2**63 - 1


def next_block(data: bytes, node_id: int) -> tuple[ProducerIdBlock, bytes]:
    """The block after the one in the znode, and the znode's next data.

    Empty data: no block was assigned yet. Raises KafkaError for other data that is not a block:
    restarting from 0 would give one id to two producers."""
    last = -1
    if data:
        taken = parse_producer_id_block(data)
        if taken is None or taken.last < taken.first or taken.first < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the producer id block is unreadable")
        last = taken.last
    if last > _PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been given out")
    block = ProducerIdBlock(node_id, last + 1, last + PRODUCER_IDS_PER_BLOCK)
    # Two producers with one id would each be taken for retries of the other.
    assert last < block.first <= block.last <= _PRODUCER_ID_MAX
    return block, build_producer_id_block(block)
