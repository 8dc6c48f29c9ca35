"""Gets a producer id for a producer without transactions, from any broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cluster.routing import Router
from ottla.client.sending.sequences import ProducerIdentity
from ottla.client.sending.transaction_requests import INIT_PRODUCER_ID
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from ottla.client.cluster.cluster import ClusterClient
    from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
    from ottla.wire.connection import Connection


async def ask_for_identity(cluster: ClusterClient) -> ProducerIdentity:
    """Return a new, unique producer id. Raises RequestRefused or TransportError."""

    def check(response: InitProducerIdResponse, connection: Connection) -> None:
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            raise RequestRefused(code, broker=str(connection.address))

    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=int(cluster.config.call_timeout_ms)
    )
    response = await Router(cluster).to_any(INIT_PRODUCER_ID, request, check)
    return ProducerIdentity(response.producer_id, response.producer_epoch)
