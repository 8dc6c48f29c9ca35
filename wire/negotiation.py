"""Connects to a broker, and negotiates the version of each API (KIP-35) from its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decode
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.version import __version__
from ottla.wire.api import FinalizedLevels, VersionRange, declare
from ottla.wire.clock import TimeLimit
from ottla.wire.connection import Connection, reason_of
from ottla.wire.connection_config import PeerConfig
from ottla.wire.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    RequestRefused,
    TransportError,
)
from ottla.wire.login import log_in
from ottla.wire.tls.handshake import secured

if TYPE_CHECKING:
    from ottla.protocol.ports import Address, Clock, Net, Socket
    from ottla.wire.connection_config import ConnectionConfig
    from ottla.wire.tls.client_tls import ClientTls

SOFTWARE_NAME = "ottla"
# Version 4 only adds supported features with minimum level 0, and 5 a check of the addressed node.
API_VERSIONS = declare(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse, 0, 3)
_NODE_CHECK_VERSION = 5
UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION)


async def connect(net: Net, clock: Clock, address: Address, config: ConnectionConfig) -> Connection:
    """Connect, encrypt, negotiate versions and log in.

    Raises BrokerUnreachable, also if the peer is not a broker; AuthenticationFailed if trying again
    is of no use."""
    try:
        async with TimeLimit(clock, config.connect_timeout_ms):
            socket = await net.connect(address, config.socket)
            if config.security.tls is not None:
                socket = await _encrypted(socket, address, config.security.tls)
    except TimeoutError as error:
        reason = f"no connection within {config.connect_timeout_ms:.0f} ms"
        raise BrokerUnreachable(address, reason) from error
    except OSError as error:
        raise unreachable(address, error) from error
    connection = Connection(socket, clock, address, config)
    try:
        await negotiate(connection, config)
        if config.security.sasl is not None:
            await log_in(connection, config.security.sasl, clock, config.connect_timeout_ms)
    except AuthenticationFailed:
        connection.close()
        raise
    except TransportError as error:
        kind = AuthenticationFailed if connection.was_refused else BrokerUnreachable
        raise kind(address, error.reason) from error
    except BaseException:
        connection.close()
        raise
    return connection


async def _encrypted(socket: Socket, address: Address, tls: ClientTls) -> Socket:
    """The socket after the TLS handshake; it is closed if that fails. Raises OSError."""
    try:
        return await secured(socket, tls.session(address.host), address.host)
    except BaseException:
        socket.close()
        raise


def unreachable(address: Address, error: OSError) -> BrokerUnreachable:
    """The client's error for a connection that could not be made."""
    kind = AuthenticationFailed if getattr(error, "is_final", False) else BrokerUnreachable
    return kind(address, reason_of(error))


async def negotiate(connection: Connection, config: ConnectionConfig) -> None:
    """Ask the broker for its versions. Raises TransportError or RequestRefused."""
    request, timeout_ms = first_request(), config.connect_timeout_ms
    version: int | None = API_VERSIONS.versions.last
    if isinstance(config, PeerConfig):
        version = _NODE_CHECK_VERSION
        request.cluster_id, request.node_id = config.cluster_id, config.node_id
    while version is not None:
        asked = version
        answer = await connection.ask(API_VERSIONS, asked, request, timeout_ms, read_answer)
        version = version_to_retry(answer, asked)
    if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
        reason = f"it is not broker {request.node_id} of the cluster {request.cluster_id}"
        connection.close(reason)
        raise BrokerUnreachable(connection.address, reason)
    connection.adopt(learned(answer, connection.address), features_of(answer))


def first_request() -> ApiVersionsRequest:
    """The first request of a new connection."""
    return ApiVersionsRequest(SOFTWARE_NAME, __version__)


def read_answer(version: int, body: memoryview) -> ApiVersionsResponse:
    """Decode the answer, which has version 0 if the broker does not support the requested one."""
    if int.from_bytes(body[:2], signed=True) == UNSUPPORTED_VERSION:
        version = 0
    return decode(ApiVersionsResponse, version, body)


def version_to_retry(answer: ApiVersionsResponse, asked: int) -> int | None:
    """The version to retry with after that answer; None if the answer is final."""
    if answer.error_code != UNSUPPORTED_VERSION or asked == 0:
        return None
    for known in answer.api_keys:
        if known.api_key == ApiKey.API_VERSIONS:
            return min(known.max_version, asked - 1)
    return 0


def learned(answer: ApiVersionsResponse, address: Address) -> dict[int, VersionRange]:
    """The version ranges that the broker supports, by API key. Raises RequestRefused."""
    if answer.error_code != ErrorCode.NONE:
        raise RequestRefused(error_code(answer.error_code), broker=str(address))
    return {
        known.api_key: VersionRange(known.min_version, known.max_version)
        for known in answer.api_keys
    }


def features_of(answer: ApiVersionsResponse) -> FinalizedLevels:
    """The finalized levels as the broker reports them."""
    return FinalizedLevels(
        answer.finalized_features_epoch,
        {feature.name: feature.max_version_level for feature in answer.finalized_features},
    )
