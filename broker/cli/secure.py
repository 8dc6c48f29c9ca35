"""``ottla start --secure``: TLS, passwords and access rules from the first start on."""

from __future__ import annotations

import logging
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.cli.secure_files import (
    LOCAL_NAMES,
    MECHANISM,
    SecureFiles,
    broker_settings,
    close_to_others,
    secure_files,
    write_client_properties,
)
from ottla.broker.log.storage.names import METADATA_STORE, SECURE_FILES
from ottla.broker.security.certificates import CryptographyMissing
from ottla.broker.server.first_users import FirstUser
from ottla.broker.system.file_limits import forbid_core_dumps
from ottla.coordinator.configs.broker_configs import ConfigError, parse_properties
from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.protocol.secret import Secret
from ottla.wire.tls.client_tls import readers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from ottla.protocol.ports import Address

logger = logging.getLogger("ottla.security")

PROTOCOL = "SASL_SSL"
_OTHERS = 0o007
_EVERYWHERE = ("0.0.0.0", "::", "")
# Listeners may have settings of their own, which end in these names.
_PASSWORDS = tuple(name for name, one in BROKER_CONFIGS.items() if one.is_sensitive)


def make_secure(settings: Mapping[str, str]) -> tuple[dict[str, str], SecureFiles]:
    """The settings of a secure broker, and its files, which are created if missing.

    Settings that are given by name take precedence. Raises ConfigError."""
    if settings.get("zookeeper.connect"):
        raise ConfigError(
            "--secure makes certificates and passwords for one machine. For brokers that share "
            "ZooKeeper make them once and give each broker its settings: see docs/security.md"
        )
    listeners = settings["listeners"]
    if not listeners.startswith(f"{PROTOCOL}://") or "," in listeners:
        raise ConfigError(
            f"--secure needs one listener, {PROTOCOL}://HOST:PORT, not {listeners!r}: leave "
            "listeners out, or give it that form"
        )
    try:
        directory = directory_of(settings)
        files = secure_files(directory, _names(settings))
    except CryptographyMissing as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"--secure: {error.filename}: {error.strerror}") from None
    return {**broker_settings(files, PROTOCOL), **settings}, files


def directory_of(settings: Mapping[str, str]) -> Path:
    """Where the files are: below the first data directory."""
    directories = settings.get("log.dirs") or settings["log.dir"]
    return Path(directories.split(",")[0].strip()) / SECURE_FILES


def close_files(settings: Mapping[str, str]) -> None:
    """Keep other users of this machine from the files of a broker with users of its own: its logs
    and its audit log, and the metadata store, in which a user's credential is enough to try
    passwords against. Files from before it had users lose the rights of others, too; and no core
    dump is written. Raises ConfigError."""
    forbid_core_dumps()
    os.umask(os.umask(0o077) | _OTHERS)
    _close_existing(settings)
    if settings.get("zookeeper.connect"):
        return
    try:
        close_to_others(directory_of(settings).with_name(METADATA_STORE))
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from None


def warn_of_surroundings(arguments: argparse.Namespace) -> None:
    """Warn of a broker that runs as root, and of passwords that other users of this machine can
    read: in the file of ``--config``, or in the list of processes."""
    if os.name == "posix" and os.geteuid() == 0:
        logger.warning(
            "the broker runs as root: whatever takes it over has the whole machine. Start it as a "
            "user of its own that owns the data directories"
        )
    config = arguments.config
    others = readers(config) if config is not None else ""
    if others and _passwords(parse_properties(Path(config).read_text("utf-8"))):
        logger.warning(
            "%s contains passwords, and %s can read it: run chmod 600 %s", config, others, config
        )
    shown = _passwords(item.partition("=")[0].strip() for item in arguments.settings)
    if shown:
        logger.warning(
            "other users see %s in the list of processes: set passwords in a file for --config",
            ", ".join(shown),
        )


def _passwords(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.endswith(_PASSWORDS))


def _close_existing(settings: Mapping[str, str]) -> None:
    """Who cannot enter a data directory cannot read its files, so those keep their modes.

    What all users of the machine share keeps its mode, too: ``ottla.audit.log`` may be a device,
    such as /dev/null, and a data directory may be one like /tmp, where each user owns files."""
    named = settings.get("log.dirs") or settings.get("log.dir", "")
    paths = [Path(name.strip()) for name in named.split(",") if name.strip()]
    if settings.get("ottla.audit.log"):
        paths.append(Path(settings["ottla.audit.log"]))
    for path in paths:
        try:
            mode = path.stat().st_mode
            is_own = stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and not mode & stat.S_ISVTX)
            if mode & _OTHERS and is_own:
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
            elif mode & _OTHERS:
                logger.warning("other users can use %s: it is shared by all users", path)
        except FileNotFoundError:
            continue
        except OSError as error:
            # A mounted volume may belong to another user.
            logger.warning(
                "other users can read %s, which belongs to another user: %s", path, error.strerror
            )


def first_users(files: SecureFiles) -> list[FirstUser]:
    """The users that the broker creates unless they exist."""
    return [
        FirstUser(name, SCRAM_MECHANISMS[MECHANISM], Secret(password))
        for name, password in files.passwords.items()
    ]


def announce(files: SecureFiles, address: Address) -> str:
    """Write ``client.properties`` with the address; the sentence that says how to use it.

    Raises OSError."""
    reachable = address._replace(host="localhost") if address.host in _EVERYWHERE else address
    path = write_client_properties(files, str(reachable))
    return f"log in as 'admin' with: ottla topics list --command-config {path}"


def _names(settings: Mapping[str, str]) -> tuple[str, ...]:
    """All names by which this machine may be reached."""
    listed = f"{settings['listeners']},{settings.get('advertised.listeners', '')}"
    hosts = [
        item.strip().partition("://")[2].rpartition(":")[0].strip("[]")
        for item in listed.split(",")
    ]
    own = [socket.gethostname(), *hosts]
    return tuple(dict.fromkeys([*LOCAL_NAMES, *(one for one in own if one not in _EVERYWHERE)]))
