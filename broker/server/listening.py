"""From configuration to the network's terms: listeners, limits, and what clients are told."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

from ottla.broker.network.settings import ListenerSpec, NetworkSettings
from ottla.broker.network.transport import BufferedTransport, PlaintextTransport
from ottla.broker.quotas.connections import BROKERS_MAX, UNLIMITED, ConnectionLimits
from ottla.coordinator.configs.broker_configs import connection_overrides
from ottla.coordinator.configs.definitions import BadValue
from ottla.coordinator.configs.listeners import is_open
from ottla.coordinator.store.paths import EndpointPayload
from ottla.protocol.frames import KafkaFraming
from ottla.protocol.ports import Address, SocketOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.broker.security.audit import Audit
    from ottla.broker.security.listener_tls import BrokerTls
    from ottla.broker.security.logins import Logins
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.configs.configs import ConfigSources

logger = logging.getLogger("ottla.broker")

_UNLIMITED = 2**62
_RATE = "max.connection.creation.rate"


def network_settings(config: BrokerConfig) -> NetworkSettings:
    """Limits for all listeners."""
    budget = config.queued_max_request_bytes
    defaults = NetworkSettings()
    return NetworkSettings(
        processors=config.num_network_threads,
        handlers=config.num_io_threads,
        queued_requests_max=config.queued_max_requests,
        queued_request_bytes_max=budget if budget > 0 else defaults.queued_request_bytes_max,
        limits=connection_limits(config, config.sources),
        connections_idle_ms_max=(
            config.connections_max_idle_ms if config.connections_max_idle_ms >= 0 else _UNLIMITED
        ),
    )


def open_listeners(config: BrokerConfig) -> list[str]:
    """The listeners that other machines reach without encryption, trusted networks included."""
    return [endpoint.listener for endpoint in config.listeners if is_open(endpoint)]


def tell_listeners(config: BrokerConfig, addresses: Mapping[str, Address], audit: Audit) -> None:
    """Say how each listener is protected; the audit log has the open ones."""
    exposed = open_listeners(config)
    for endpoint in config.listeners:
        name, sasl = endpoint.listener, config.sasl.get(endpoint.listener)
        logger.info(
            "the listener %s at %s speaks %s%s%s",
            name,
            addresses[name],
            endpoint.security_protocol,
            f" ({', '.join(sasl.mechanisms)})" if sasl is not None else "",
            " and is open to other machines" if name in exposed else "",
        )
    if exposed:
        audit.said("start", insecure_listeners=",".join(exposed))


def connection_limits(config: BrokerConfig, sources: ConfigSources) -> ConnectionLimits:
    """The limits of connections as they are set now: ``sources`` has the dynamic ones."""

    def number(setting: str) -> int:
        text = (sources.text(setting) or "").strip()
        return min(int(text), UNLIMITED) if text.isascii() and text.isdigit() else UNLIMITED

    def by_listener(setting: str) -> dict[str, int]:
        names = [endpoint.listener for endpoint in config.listeners]
        return {name: number(f"listener.name.{name.lower()}.{setting}") for name in names}

    listener_max = by_listener("max.connections")
    exempt = exempt_listener(config)
    if listener_max.get(exempt) == UNLIMITED:
        listener_max[exempt] = BROKERS_MAX
    return ConnectionLimits(
        total_max=number("max.connections"),
        per_ip_max=number("max.connections.per.ip"),
        per_ip_overrides=_overrides(sources, config.max_connections_per_ip_overrides),
        rate=number(_RATE),
        listener_max=listener_max,
        listener_rate=by_listener(_RATE),
    )


def exempt_listener(config: BrokerConfig) -> str:
    """The listener of brokers where they have one of their own, which a storm of clients must not
    use up; the empty text for none."""
    return config.inter_broker_listener_name if len(config.listeners) > 1 else ""


def _overrides(sources: ConfigSources, static: Mapping[str, int]) -> Mapping[str, int]:
    """A dynamic value that cannot be read leaves what the broker started with."""
    try:
        return connection_overrides(sources)
    except BadValue:
        return static


def listener_specs(
    config: BrokerConfig, tls: BrokerTls, logins: Logins | None
) -> list[ListenerSpec]:
    """One for each of ``listeners``; without logins all of them are open."""
    options = SocketOptions(
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        backlog=config.socket_listen_backlog_size,
    )
    transport = PlaintextTransport if config.fetch_zero_copy else BufferedTransport
    exempt = exempt_listener(config)
    return [
        ListenerSpec(
            endpoint.listener,
            Address(endpoint.host, endpoint.port),
            framing=KafkaFraming(config.socket_request_max_bytes),
            options=options,
            transport=transport if tls.of(endpoint.listener) is None else BufferedTransport,
            tls=tls.of(endpoint.listener),
            is_exempt=endpoint.listener == exempt,
            login=None
            if logins is None
            else logins.entrance_of(endpoint.listener, is_exempt=endpoint.listener == exempt),
        )
        for endpoint in config.listeners
    ]


def metrics_address(config: BrokerConfig) -> Address | None:
    """Where figures are served over HTTP, None for nowhere."""
    return None if config.metrics_listener is None else address_of(config.metrics_listener)


def address_of(text: str) -> Address:
    """The address that a setting writes as host:port."""
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def why_not_bound(specs: Sequence[ListenerSpec], error: OSError) -> str:
    """One sentence for the person who started the broker, and what to do about it."""
    where = ", ".join(str(spec.address) for spec in specs)
    taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
    advice = (
        "Choose another port with --port (0 for a free one)."
        if taken
        else "Choose an address of this machine with --host."
    )
    return f"cannot listen on {where}: {error.strerror or error}. {advice}"


def advertised(config: BrokerConfig, bound: Mapping[str, Address]) -> tuple[EndpointPayload, ...]:
    """What clients of each listener are told; port 0 is the one that was bound."""
    return tuple(
        EndpointPayload(
            endpoint.listener,
            endpoint.host,
            endpoint.port or bound[endpoint.listener].port,
            endpoint.security_protocol,
        )
        for endpoint in config.advertised_listeners
    )
