"""Login of a broker at other brokers: ``sasl.mechanism.inter.broker.protocol``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.wire.sasl import PasswordSasl

if TYPE_CHECKING:
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.wire.security import ConnectionSecurity


def inter_broker_security(config: BrokerConfig, security: ConnectionSecurity) -> ConnectionSecurity:
    """Return the security with the login that the inter-broker listener requires, if any."""
    settings = config.sasl.get(config.inter_broker_listener_name)
    if settings is None:
        return security
    mechanism = config.sasl_mechanism_inter_broker_protocol
    entry = settings.jaas[mechanism]
    sasl = PasswordSasl(mechanism, entry.text("username"), entry.secret("password"))
    return replace(security, sasl=sasl)
