"""``ottla secure znodes``: who may use the znodes of a cluster that exist already."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.cli.serving import real_ports
from ottla.broker.engine.tasks import Tasks
from ottla.broker.server.broker import CannotStart
from ottla.broker.server.stores import open_store
from ottla.client.cli.output import json_document, write
from ottla.client.cli.run import CommandError, UsageError
from ottla.coordinator.configs.broker_configs import (
    BrokerConfig,
    ConfigError,
    parse_broker_config,
    parse_properties,
)
from ottla.coordinator.store.paths import BROKER_IDS
from ottla.coordinator.store.store import NoNode, StoreError
from ottla.coordinator.store.zookeeper import parse_connect
from ottla.coordinator.store.zookeeper_rights import CONSUMERS, WORLD, RightsWalk, WantedRights
from ottla.coordinator.store.zookeeper_session import ZooKeeperSession
from ottla.wire.tls.client_tls import readers

if TYPE_CHECKING:
    import argparse

_NAMES = ("zookeeper.", "ottla.zookeeper.", "ottla.allow.readable.keys")
_SHOWN_MAX = 10


async def perform(arguments: argparse.Namespace) -> int:
    """Close the znodes, open them, or only look. Returns 1 if not all are as they should be."""
    config = _config(arguments.config)
    root = parse_connect(config.zookeeper_connect or "").chroot
    wanted = WantedRights(
        None if arguments.open else config.zookeeper_digest,
        config.zookeeper_others_read,
        config.zookeeper_ssl_keystore_location is not None,
    )
    kept = () if arguments.with_consumers else (CONSUMERS,)
    ports, tasks = real_ports(memory=False), Tasks()
    place = parse_connect(config.zookeeper_connect or "").hosts
    try:
        store, opened = await open_store(
            ports, tasks, replace(config, zookeeper_connect=place), lambda _error: None
        )
        try:
            session = await store.connect(config.zookeeper_session_timeout_ms)
            assert isinstance(session, ZooKeeperSession)
            if not arguments.check and not arguments.open:
                await _refuse_open_brokers(session, root)
            done = RightsWalk(session, root, wanted, sets=not arguments.check, except_for=kept)
            await done.run()
            # Brokers work meanwhile; what they create has to be protected by themselves.
            rest = done
            if not arguments.check:
                rest = RightsWalk(session, root, wanted, sets=False, except_for=kept)
                await rest.run()
        finally:
            await opened.close()
    except NoNode:
        raise CommandError(f"ZooKeeper at {place} has no {root}: check zookeeper.connect") from None
    except (CannotStart, StoreError) as error:
        raise CommandError(f"{error}; a second run does the rest") from error
    finally:
        await tasks.stop()
    return _tell(arguments, done, rest)


async def _refuse_open_brokers(session: ZooKeeperSession, root: str) -> None:
    """Raise CommandError if a broker runs that leaves its own znode open: it may not log in to
    ZooKeeper, and could then not change a znode any more."""
    try:
        names = await session.children(root + BROKER_IDS)
        rights = [await session.rights(f"{root}{BROKER_IDS}/{name}") for name in names]
    except NoNode:
        # None runs, or one has just ended; the walk finds a root that does not exist.
        return
    found = [name for name, right in zip(names, rights, strict=True) if WORLD in right]
    if found:
        raise CommandError(
            f"broker {', '.join(sorted(found))} would be locked out, because it runs without "
            "zookeeper.set.acl=true: restart all brokers with ottla.zookeeper.digest, and again "
            "with zookeeper.set.acl=true"
        )


def _config(path: str) -> BrokerConfig:
    """The settings of a broker that are about ZooKeeper. Raises UsageError, CommandError."""
    try:
        every = parse_properties(Path(path).read_text("utf-8"))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    others = readers(path)
    if others:
        _warn(f"{path} contains a password, and {others} can read it: run chmod 600 {path}")
    settings = {name: text for name, text in every.items() if name.startswith(_NAMES)}
    try:
        config = parse_broker_config({"log.dirs": "unused", **settings}).config
    except ConfigError as error:
        raise CommandError(str(error)) from error
    for name, value in (
        ("zookeeper.connect", config.zookeeper_connect),
        ("ottla.zookeeper.digest", config.zookeeper_digest),
    ):
        if not value:
            raise UsageError(f"{path} has no {name}: give the settings of a broker")
    return config


def _tell(arguments: argparse.Namespace, done: RightsWalk, rest: RightsWalk) -> int:
    state = "open" if arguments.open else "closed"
    changed = [] if arguments.check else done.changed
    if arguments.format == "json":
        write(
            json_document(
                {
                    "state": state,
                    "znodes": rest.count,
                    "changed": len(changed),
                    "not_" + state: rest.changed,
                    "of_other_users": rest.refused,
                    "left": rest.left,
                }
            )
        )
        return int(bool(rest.changed or rest.refused))
    right = rest.count - len(rest.changed)
    write(f"{right} of {rest.count} znodes are {state}; {len(changed)} were changed now\n")
    if rest.left:
        write(f"not touched: {_some(rest.left)}\n")
    if rest.refused:
        _warn(
            f"another user owns {_some(rest.refused)}: run this with the ottla.zookeeper.digest of "
            "that user"
        )
    if rest.changed and not arguments.check and not arguments.open:
        _warn(
            f"{_some(rest.changed)} appeared open meanwhile: set zookeeper.set.acl=true on all "
            "brokers, restart them, and run this again"
        )
    elif rest.changed:
        _warn(f"not {state}: {_some(rest.changed)}")
    return int(bool(rest.changed or rest.refused))


def _some(paths: list[str]) -> str:
    shown = ", ".join(sorted(paths)[:_SHOWN_MAX])
    more = len(paths) - _SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _warn(text: str) -> None:
    sys.stderr.write(f"{text}\n")
