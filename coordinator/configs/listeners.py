"""Where a broker listens and what it tells clients: listeners and their advertised addresses.

A listener without a host is bound to this machine only, unless the operator advertises it under an
address that other machines can reach.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from ottla.coordinator.configs.definitions import BadValue
from ottla.coordinator.metadata.image import Endpoint
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_ADDRESS = re.compile(r"([^:/\s]+)://(?:\[([0-9a-fA-F:.%\w]*)\]|([\w.%-]*)):([0-9]+)", re.ASCII)
_PORT_MAX = 65535
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_EVERYWHERE = ("0.0.0.0", "::")
_ABOUT_OPEN = {
    "PLAINTEXT": "lets in everyone who reaches it, and sends everything in clear text",
    "SASL_PLAINTEXT": "sends everything in clear text, passwords of PLAIN among it",
}
THIS_MACHINE = "127.0.0.1"


class ListenerTexts(NamedTuple):
    """The settings that describe listeners, as text; None is not set."""

    listeners: str
    advertised: str | None
    protocol_map: str
    inter_broker_name: str | None
    inter_broker_protocol: str | None
    controller_names: str | None = None
    insecure_names: str | None = None


class Listeners(NamedTuple):
    """What the texts mean. Both lists are in the order of ``listeners``."""

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker_name: str
    warnings: tuple[str, ...]


def parse_listeners(texts: ListenerTexts) -> Listeners:
    """Raises BadValue with a whole sentence."""
    protocols = _parse_map(texts.protocol_map)
    controllers = {name.strip().upper() for name in (texts.controller_names or "").split(",")}
    bound = _parse_addresses("listeners", texts.listeners, protocols, controllers)
    if not bound:
        raise BadValue("listeners names no listener for clients")
    _check_ports(bound)
    named = _parse_addresses("advertised.listeners", texts.advertised, protocols, controllers)
    advertised_by_name = {endpoint.listener: endpoint for endpoint in named}
    for name in advertised_by_name:
        if name not in {endpoint.listener for endpoint in bound}:
            raise BadValue(f"advertised.listeners names {name}, which listeners does not")
    warnings: list[str] = []
    bound = tuple(_bind(endpoint, advertised_by_name, warnings) for endpoint in bound)
    advertised = tuple(_advertise(endpoint, advertised_by_name) for endpoint in bound)
    known = {name.strip().upper() for name in (texts.insecure_names or "").split(",")}
    warnings += [
        _about_open(endpoint)
        for endpoint in bound
        if is_open(endpoint) and endpoint.listener not in known
    ]
    return Listeners(bound, advertised, _inter_broker_name(texts, bound), tuple(warnings))


def _parse_map(text: str) -> Mapping[str, str]:
    """``listener.security.protocol.map``: NAME:PROTOCOL pairs."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (item.strip() for item in text.split(","))):
        name, separator, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not separator or protocol not in PROTOCOLS:
            raise BadValue(
                f"listener.security.protocol.map wants NAME:PROTOCOL, not {pair!r}; protocols are "
                + ", ".join(PROTOCOLS)
            )
        if name in protocols:
            raise BadValue(f"listener.security.protocol.map has {name} twice")
        protocols[name] = protocol
    return protocols


def _parse_addresses(
    setting: str, text: str | None, protocols: Mapping[str, str], controllers: set[str]
) -> tuple[Endpoint, ...]:
    """The end points in a list of NAME://host:port, without those of KRaft's controllers."""
    found: dict[str, Endpoint] = {}
    for item in filter(None, (item.strip() for item in (text or "").split(","))):
        match = _ADDRESS.fullmatch(item)
        if match is None or int(match[4]) > _PORT_MAX:
            raise BadValue(f"{setting} wants NAME://host:port, not {item!r}")
        name = match[1].upper()
        if name in controllers:
            continue
        if name in found:
            raise BadValue(f"{setting} has the listener {name} twice")
        protocol = protocols.get(name)
        if protocol is None:
            raise BadValue(
                f"listener.security.protocol.map does not say what the listener {name} speaks"
            )
        found[name] = Endpoint(name, match[2] or match[3] or "", int(match[4]), protocol)
    return tuple(found.values())


def _about_open(endpoint: Endpoint) -> str:
    problem = _ABOUT_OPEN[endpoint.security_protocol]
    return (
        f"the listener {endpoint.listener} at {endpoint.host} {problem}; map it to SASL_SSL or SSL "
        "in listener.security.protocol.map, or name it in ottla.allow.insecure.listeners if its "
        "network is trusted"
    )


def _check_ports(endpoints: tuple[Endpoint, ...]) -> None:
    """Two listeners may share a port only under different addresses."""
    counts = Counter((end.host, end.port) for end in endpoints if end.port)
    for (host, port), count in counts.items():
        if count > 1:
            raise BadValue(f"two listeners want the address {host}:{port}")


def is_open(endpoint: Endpoint) -> bool:
    """Whether other machines reach the listener without encryption."""
    return endpoint.security_protocol in _ABOUT_OPEN and not is_local(endpoint.host)


def is_local(host: str) -> bool:
    """Whether only this machine has the address."""
    return host in ("localhost", "::1", "") or host.startswith("127.")


def _bind(endpoint: Endpoint, advertised: Mapping[str, Endpoint], warnings: list[str]) -> Endpoint:
    """Choose the address of a listener that names none."""
    if endpoint.host:
        return endpoint
    told = advertised.get(endpoint.listener)
    if told is not None and not is_local(told.host):
        return endpoint._replace(host=_EVERYWHERE[0])
    warnings.append(
        f"the listener {endpoint.listener} names no host and is bound to {THIS_MACHINE}; "
        f"write {_EVERYWHERE[0]} to listen on every address"
    )
    return endpoint._replace(host=THIS_MACHINE)


def _advertise(endpoint: Endpoint, advertised: Mapping[str, Endpoint]) -> Endpoint:
    """What clients of a listener are told. Port 0 means: the one that was bound."""
    told = advertised.get(endpoint.listener, endpoint)
    if not told.host:
        told = told._replace(host=endpoint.host)
    if told.host in _EVERYWHERE:
        raise BadValue(
            f"{told.host} means every address of this machine, but clients and other "
            "brokers need one "
            "that they can reach: set "
            f"advertised.listeners={endpoint.listener}://NAME:{told.port}"
        )
    return told


def _inter_broker_name(texts: ListenerTexts, bound: tuple[Endpoint, ...]) -> str:
    names = [endpoint.listener for endpoint in bound]
    if texts.inter_broker_name is not None:
        if texts.inter_broker_protocol is not None:
            raise BadValue(
                "only one of inter.broker.listener.name and security.inter.broker.protocol "
                "can be set"
            )
        name = texts.inter_broker_name.upper()
        if name not in names:
            raise BadValue(f"inter.broker.listener.name is {name}, which listeners does not name")
        return name
    protocol = texts.inter_broker_protocol
    for endpoint in bound:
        # Kafka takes the listener that is called like the protocol.
        if endpoint.listener == (protocol or PROTOCOLS[0]):
            return endpoint.listener
    if len(names) == 1 and protocol in (None, bound[0].security_protocol):
        return names[0]
    raise BadValue(f"set inter.broker.listener.name to one of {', '.join(names)}")
