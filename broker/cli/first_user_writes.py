"""Users that are written into a metadata store without a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cli.serving import real_ports
from ottla.broker.engine.tasks import Tasks
from ottla.broker.membership.store_layout import found_cluster
from ottla.broker.server.broker import CannotStart
from ottla.broker.server.first_users import FirstUser, write_user
from ottla.broker.server.stores import open_store
from ottla.client.cli.run import CommandError
from ottla.coordinator.configs.broker_configs import ConfigError, parse_broker_config
from ottla.coordinator.store.store import StoreError
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.sasl.scram_record import SALT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


async def write_offline(
    settings: Mapping[str, str], users: Sequence[FirstUser], *, only_new: bool = False
) -> None:
    """Write into the store that a broker with these settings would use. Raises CommandError."""
    ports, tasks = real_ports(memory=False), Tasks()
    try:
        config = parse_broker_config(settings).config
        store, opened = await open_store(ports, tasks, config, lambda _error: None)
        try:
            session = await store.connect(config.zookeeper_session_timeout_ms)
            await found_cluster(session, ports.random)
            for user in users:
                salt = ports.random.token(SALT_BYTES)
                await write_user(session, user, salt, only_new=only_new)
            await session.close()
        finally:
            await opened.close()
    except (CannotStart, ConfigError, StoreError, KafkaError, CorruptLogError) as error:
        raise CommandError(getattr(error, "message", None) or str(error)) from error
    finally:
        await tasks.stop()
