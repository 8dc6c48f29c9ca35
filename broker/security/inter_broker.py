"""How a broker logs in to the other brokers: ``sasl.mechanism.inter.broker.protocol``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.wire.sasl import PasswordSasl

if TYPE_CHECKING:
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.wire.security import ConnectionSecurity


def inter_broker_security(config: BrokerConfig, security: ConnectionSecurity) -> ConnectionSecurity:
    """The given security with the login that the listener for brokers asks for, if it does."""
    settings = config.sasl.get(config.inter_broker_listener_name)
    if settings is None:
        return security
    mechanism = config.sasl_mechanism_inter_broker_protocol
    entry = settings.jaas[mechanism]
    sasl = PasswordSasl(mechanism, entry.text("username"), entry.secret("password"))
    return replace(security, sasl=sasl)
