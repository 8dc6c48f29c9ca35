"""Opens the metadata store that a broker's configuration names: ZooKeeper or the embedded one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.log.storage.names import META_PROPERTIES, METADATA_STORE
from ottla.broker.security.listener_tls import check_key_file
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.store import ConnectionLoss
from ottla.coordinator.store.zookeeper_tls import Tls
from ottla.wire.tls.settings import BadTls

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.tasks import Tasks
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.store.store import Store
    from ottla.coordinator.store.zookeeper import ZooKeeperOptions, ZooKeeperStore
    from ottla.protocol.ports import Ports


# The ids of brokers in one process begin here; each has a directory of that name.
FIRST_BROKER_ID = 1


class CannotStart(Exception):
    """Carries one sentence for the person who started the broker."""


class OpenedStore(Protocol):
    """A store to be closed by the caller that opened it."""

    async def close(self) -> None:
        """Close the store. May be called again."""


async def open_embedded(
    ports: Ports, tasks: Tasks, directory: str, on_failure: Callable[[Exception], object]
) -> EmbeddedStore:
    """Open the store in a subdirectory of ``directory``. Raises CannotStart, CorruptLogError."""
    try:
        store = await EmbeddedStore.open(
            ports.disk, ports.clock, tasks.spawn, f"{directory}/{METADATA_STORE}"
        )
    except BlockingIOError:
        raise CannotStart(
            f"{directory} is in use by another broker process. Stop that broker, "
            "or give this one its own data directory with --data-dir."
        ) from None
    except OSError as error:
        raise CannotStart(f"cannot use {directory}: {error.strerror or error}") from error
    except ConnectionLoss as error:
        # The disk is full, and sessions of an earlier life are to be ended.
        raise CannotStart(f"cannot use {directory}: {error}") from error
    store.on_failure(on_failure)
    return store


async def open_store(
    ports: Ports, tasks: Tasks, config: BrokerConfig, on_failure: Callable[[Exception], object]
) -> tuple[Store, OpenedStore]:
    """Open the store that the configuration names; return it twice, as a store and to be closed.

    Raises CannotStart, CorruptLogError."""
    directory = config.log_dirs[0]
    if ports.disk.exists(f"{directory}/{FIRST_BROKER_ID}/{META_PROPERTIES}"):
        raise CannotStart(
            f"{directory} holds the data of several brokers. Start them with --brokers or "
            "--processes, or choose another directory with --data-dir."
        )
    if config.zookeeper_connect is not None:
        zookeeper = await _open_zookeeper(ports, config, config.zookeeper_connect)
        return zookeeper, zookeeper
    embedded = await open_embedded(ports, tasks, directory, on_failure)
    return embedded, embedded


async def _open_zookeeper(ports: Ports, config: BrokerConfig, servers: str) -> ZooKeeperStore:
    store_class, options_class = _load_zookeeper()
    tls = None
    if config.zookeeper_ssl_client_enable:
        try:
            check_key_file(
                config.zookeeper_ssl_keystore_location, may_be_read=config.allow_readable_keys
            )
        except BadTls as error:
            raise CannotStart(str(error)) from error
        tls = Tls(
            config.zookeeper_ssl_truststore_location,
            config.zookeeper_ssl_keystore_location,
            config.zookeeper_ssl_keystore_password,
            bool(config.zookeeper_ssl_endpoint_identification_algorithm),
        )
    options = options_class(
        config.zookeeper_connection_timeout_ms,
        digest=config.zookeeper_digest,
        set_acl=config.zookeeper_set_acl,
        others_read=config.zookeeper_others_read,
        tls=tls,
    )
    try:
        return await store_class.open(servers, ports.clock, options)
    except ValueError as error:
        raise CannotStart(str(error)) from error


def _load_zookeeper() -> tuple[type[ZooKeeperStore], type[ZooKeeperOptions]]:
    """Called by brokers that use ZooKeeper: kazoo costs others a third of their start."""
    from ottla.coordinator.store.zookeeper import ZooKeeperOptions, ZooKeeperStore

    return ZooKeeperStore, ZooKeeperOptions
