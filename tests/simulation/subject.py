"""The broker under chaos: the real one, or a toy to try the simulator on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.broker import Broker
from ottla.coordinator.configs.broker_configs import parse_broker_config
from tests.simulation.toys.broker import ToyBroker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.ports import Ports
    from tests.simulation.single_broker import Build
    from tests.simulation.world.node import Server


def build_toy(ports: Ports, _: Mapping[str, str]) -> Server:
    """The toy without its bugs."""
    return ToyBroker(ports, frozenset())


def build_toy_with(bug: str) -> Build:
    """The toy with one of its bugs."""
    return lambda ports, _: ToyBroker(ports, frozenset({bug}))


def build_broker(ports: Ports, settings: Mapping[str, str]) -> Server:
    """The real one, configured as an operator would."""
    return Broker(ports, parse_broker_config(settings).config)
