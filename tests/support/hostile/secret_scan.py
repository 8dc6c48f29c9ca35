"""Looks for secrets where an operator, another user of the machine or a thief may look.

Each broker that tests start with passwords or keys in its settings is scanned when it stops: its
log, its audit log, and its files in the data directory; one in the test's process also for what it
answers to DescribeConfigs. ``cluster_scan`` does so with clusters.
"""

from __future__ import annotations

import base64
import logging
import re
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.configs import describe_broker
from ottla.protocol.properties import parse_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ottla.broker.server.first_users import FirstUser
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.protocol.ports import Disk

# Shorter words stand in logs by chance.
CHARACTERS_MIN = 8
# Segments of records and indexes are made at their full size; what leaks is in small files.
FILE_BYTES_MAX = 1_000_000
# Written by ``ottla start --secure`` for its clients: passwords belong there.
FOR_CLIENTS = "secure"
_SECRETS = tuple(name for name, one in BROKER_CONFIGS.items() if one.is_sensitive)
_IN_JAAS = re.compile(r'\b(?:password|user_\w+)\s*=\s*"([^"]*)"')
_SPACES = re.compile(r"\s|\\n")


def forms(secret: str) -> Iterator[bytes]:
    """A secret as it is, in hexadecimal digits, and in base64 wherever it begins there."""
    plain = secret.encode()
    yield plain
    yield plain.hex().encode()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + plain)
        # The first and last characters depend on what stands beside it.
        yield encoded[4 if before else 0 : -4]


def hits(secrets: Iterable[str], places: Mapping[str, bytes | str]) -> list[str]:
    """Where a secret stands, which, and what is before it."""
    wanted = [(secret, list(forms(secret))) for secret in secrets]
    found = []
    for where, content in places.items():
        data = content.encode() if isinstance(content, str) else content
        for secret, written in wanted:
            at = max(data.find(form) for form in written)
            if at >= 0:
                found.append(f"{secret} in {where} behind {data[max(0, at - 200) : at]!r}")
    return found


def secrets_of(settings: Mapping[str, str]) -> list[str]:
    """The passwords and keys in a broker's settings that are long enough to be looked for."""
    found: set[str] = set()
    for name, text in settings.items():
        if name.endswith("jaas.config"):
            found.update(_IN_JAAS.findall(text))
        elif name.endswith("digest"):
            found.add(text.partition(":")[2])
        elif name.endswith(_SECRETS):
            # Of a key in PEM a line.
            found.add(max(_SPACES.split(text), key=len))
    return sorted(one for one in found if len(one) >= CHARACTERS_MIN)


def settings_in(command: Sequence[str]) -> dict[str, str]:
    """What a command line sets with ``-o`` and in the file of ``--config``."""
    settings: dict[str, str] = {}
    for option, value in pairwise(command):
        if option == "--config" and Path(value).exists():
            settings |= parse_properties(Path(value).read_text("utf-8"))
    for option, value in pairwise(command):
        if option == "-o":
            name, _, text = value.partition("=")
            settings[name] = text
    return settings


def files_in(folder: Path) -> dict[str, bytes]:
    """The small files of a data directory, except those for its clients."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and FOR_CLIENTS not in path.relative_to(folder).parts
        and path.stat().st_size <= FILE_BYTES_MAX
    }


def files_on(disk: Disk, folder: str) -> dict[str, bytes]:
    """The same of a disk in memory, or of the folder on a real one."""
    if not isinstance(disk, MemoryDisk):
        return files_in(Path(folder))
    found = {path: disk.open(path) for path in list(disk._files)}
    return {
        path: file.pread(file.size_bytes, 0)
        for path, file in found.items()
        if file.size_bytes <= FILE_BYTES_MAX
    }


def check_process(command: Sequence[str], log: Path, data: Path) -> None:
    """Raise AssertionError if the log or the data of a broker that has ended shows a secret of its
    settings."""
    settings = settings_in(command)
    secrets = secrets_of(settings)
    if not secrets:
        return
    places: dict[str, bytes | str] = {**files_in(data)}
    for path in (log, Path(settings.get("ottla.audit.log") or log)):
        if path.is_file():
            places[str(path)] = path.read_bytes()
    assert not (found := hits(secrets, places)), "\n".join(found)


class _Texts(logging.Handler):
    """Keeps what it is given as a log file would have it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter())
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@contextmanager
def logged() -> Iterator[list[str]]:
    """What is logged meanwhile."""
    texts, logger = _Texts(), logging.getLogger("ottla")
    logger.addHandler(texts)
    try:
        yield texts.texts
    finally:
        logger.removeHandler(texts)


@contextmanager
def watched(config: BrokerConfig, disk: Disk, users: Sequence[FirstUser] = ()) -> Iterator[None]:
    """Raise AssertionError at the end if a secret of a broker's settings, or the password of its
    first users, was logged meanwhile or is on its disk in memory, or if the broker shows one."""
    secrets = {*secrets_of(config.static), *passwords_of(users)}
    if not secrets:
        yield
        return
    with logged() as texts:
        yield
    places: dict[str, bytes | str] = {
        "the log": "\n".join(texts),
        "DescribeConfigs": repr(describe_broker(config.sources)),
        "a repr": f"{config!r} {config.sasl!r} {config.sources!r} {users!r}",
    }
    if isinstance(disk, MemoryDisk):
        places |= files_on(disk, "/")
    assert not (found := hits(secrets, places)), "\n".join(found)


def passwords_of(users: Iterable[FirstUser]) -> Iterator[str]:
    """Those that are long enough to be looked for."""
    for user in users:
        if len(password := user.password.reveal()) >= CHARACTERS_MIN:
            yield password
