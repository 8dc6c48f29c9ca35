"""Builds the authorizer that the broker's settings name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.authorization.authorizer import AclAuthorizer, Authorizer
from ottla.broker.authorization.store import AclStore
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.authorization.authorizer import Tell
    from ottla.broker.engine.tasks import Tasks
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.protocol.ports import Clock


logger = logging.getLogger("ottla.authorization")

_ANONYMOUS = "User:ANONYMOUS"


class Authorization(NamedTuple):
    """The authorizer, and where its rules are kept; None without ``authorizer.class.name``."""

    authorizer: Authorizer
    acls: AclStore | None


def super_users_of(config: BrokerConfig) -> frozenset[str]:
    """The principals of ``super.users``; names are separated by semicolons, as they have commas."""
    return frozenset(item.strip() for item in config.super_users.split(";") if item.strip())


def build_authorization(
    config: BrokerConfig, tell: Tell, clock: Clock, tasks: Tasks
) -> Authorization:
    """Build the authorizer. All accepted class names stand for Ottla's only one."""
    if not config.authorizer_class_name:
        allowing = Authorizer()
        allowing.tell = tell
        return Authorization(allowing, None)
    _warn(config)
    authorizer = AclAuthorizer(
        super_users_of(config),
        open_without_rules=config.allow_everyone_if_no_acl_found,
        tell=tell,
    )
    return Authorization(authorizer, AclStore(authorizer, clock, tasks))


def _warn(config: BrokerConfig) -> None:
    """Warn the operator of rules that the listeners make ineffective."""
    name = config.inter_broker_listener_name
    protocols = {end.listener: end.security_protocol for end in config.listeners}
    if protocols.get(name) == "PLAINTEXT" and _ANONYMOUS not in super_users_of(config):
        logger.warning(
            "the brokers call each other over the listener %s without authentication, as %s: "
            "unless a rule allows it ClusterAction on the cluster, they refuse each other. "
            "Give the listener SASL or TLS, or add %s to super.users where only brokers reach it",
            name,
            _ANONYMOUS,
            _ANONYMOUS,
        )
    if config.allow_everyone_if_no_acl_found:
        logger.warning(
            "allow.everyone.if.no.acl.found is true: all clients may use what no rule is about"
        )
