"""Resources of type 8 in DescribeConfigs and IncrementalAlterConfigs: log levels (KIP-412).

Each logger of the process is a setting, its level in Log4j's words the value. A level is set at
once and in memory only: a restart forgets it. Brokers that share a process share its loggers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.engine.request_log import REQUEST_LOG
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.configs import ConfigOperation, ConfigSource
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_configs import DescribeConfigsResourceResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.messages.incremental_alter_configs import AlterableConfig

# The parent of all loggers of this package.
ROOT = "ottla"
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
# What loggers were set to before an administrator changed them: they go back to it.
_defaults: dict[str, int] = {}


def describe_loggers(
    services: Services, context: RequestContext, broker: str, names: Sequence[str] | None
) -> list[DescribeConfigsResourceResult]:
    """The level of each logger, or of those that are named. Raises KafkaError."""
    _require(services, context, Operation.DESCRIBE_CONFIGS)
    _check_broker(services, broker)
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level_name(logger.getEffectiveLevel()),
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER,
        )
        for name, logger in _loggers().items()
        if not names or name in names
    ]


def change_loggers(
    services: Services,
    context: RequestContext,
    broker: str,
    changes: Sequence[AlterableConfig],
    *,
    validate_only: bool,
) -> None:
    """Set levels, or have loggers go back to theirs; all changes or none. Raises KafkaError."""
    _require(services, context, Operation.ALTER_CONFIGS)
    _check_broker(services, broker)
    loggers = _loggers()
    for change in changes:
        _check(change, loggers)
    if validate_only:
        return
    for change in changes:
        logger = loggers[change.name]
        _defaults.setdefault(change.name, logger.level)
        is_set = change.config_operation == ConfigOperation.SET
        logger.setLevel(LEVELS[change.value or ""] if is_set else _defaults.pop(change.name))
    REQUEST_LOG.refresh()


def level_name(level: int) -> str:
    """Log4j's word for a level of Python's, the next lower one where there is none."""
    return max(
        (name for name in LEVELS if LEVELS[name] <= level), key=LEVELS.__getitem__, default="TRACE"
    )


def _loggers() -> dict[str, logging.Logger]:
    known = logging.Logger.manager.loggerDict
    return {
        name: known_one
        for name, known_one in sorted(known.items())
        if isinstance(known_one, logging.Logger) and (name == ROOT or name.startswith(f"{ROOT}."))
    }


def _require(services: Services, context: RequestContext, operation: Operation) -> None:
    if not services.authorizer.is_allowed(
        context, operation, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _check_broker(services: Services, broker: str) -> None:
    if broker != str(services.node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"ask broker {broker!r} itself for its loggers: this is broker {services.node_id}",
        )


def _check(change: AlterableConfig, loggers: dict[str, logging.Logger]) -> None:
    operation, name = change.config_operation, change.name
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the level of a logger is set or deleted only")
    if operation == ConfigOperation.SET and change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is to be set to no level")
    if name not in loggers:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {name}")
    if operation == ConfigOperation.SET and change.value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{change.value} is no level for {name}: choose one of {', '.join(LEVELS)}",
        )
    if operation == ConfigOperation.DELETE and name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{ROOT} has no parent to take its level from: set one"
        )
