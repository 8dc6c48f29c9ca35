"""TLS towards brokers: the context of one set of settings, made again when a file has changed.

Also tells which other users of this machine can read the files."""

from __future__ import annotations

import logging
import os
import stat
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from ottla.wire.tls.contexts import TlsMaterial, client_context
from ottla.wire.tls.failures import TlsError
from ottla.wire.tls.session import TlsSession
from ottla.wire.tls.settings import BadTls
from ottla.wire.tls.stores import material_of

if TYPE_CHECKING:
    import ssl

    from ottla.wire.tls.settings import TlsSettings

logger = logging.getLogger("ottla.security")

_BESIDES_OWNER = stat.S_IRWXG | stat.S_IRWXO
# What a group may not do with a file that root has given to it, and others in any case.
_NOT_GIVEN = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO


class ClientTls(Protocol):
    """Creates the TLS sessions of outgoing connections."""

    def session(self, host: str) -> TlsSession:
        """Return a new session with the broker of that name or address. Raises TlsError."""


class FileTls:
    """From the files and texts that a client's settings name. May be pickled; equal settings make
    equal objects."""

    __slots__ = ("_context", "_stamps", "settings")

    def __init__(self, settings: TlsSettings) -> None:
        self.settings = settings
        self._context: ssl.SSLContext | None = None
        self._stamps: list[tuple[int, int]] = []

    def session(self, host: str) -> TlsSession:
        try:
            return TlsSession(self._current(), is_server=False, server_name=host)
        except BadTls as error:
            raise TlsError(str(error)) from error

    def check(self) -> None:
        """Raises BadTls if the files cannot be used."""
        self._current()

    def _current(self) -> ssl.SSLContext:
        stamps = [_stamp(path) for path in self.settings.paths]
        if self._context is None or stamps != self._stamps:
            context = client_context(self.settings, self._material())
            for path in self.settings.own.key_paths:
                warn_of_readers(path, "a private key")
            self._context, self._stamps = context, stamps
        return self._context

    def _material(self) -> TlsMaterial:
        directory = self.settings.trusted.path
        if directory is not None and os.path.isdir(directory):
            # As with librdkafka: certificates under their hashed names.
            without = self.settings._replace(trusted=self.settings.trusted._replace(path=None))
            return material_of(without, read_file)._replace(trusted_directory=directory)
        return material_of(self.settings, read_file)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileTls) and other.settings == self.settings

    def __hash__(self) -> int:
        return hash(self.settings)

    def __reduce__(self) -> tuple[type[FileTls], tuple[TlsSettings]]:
        return FileTls, (self.settings,)

    def __repr__(self) -> str:
        return f"FileTls({self.settings!r})"


def read_file(path: str) -> bytes:
    """The whole content. Raises OSError."""
    with open(path, "rb") as file:
        return file.read()


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (-1, -1)
    return found.st_mtime_ns, found.st_size


def readers(path: str) -> str:
    """Which users of this machine may use the file besides its owner, in words; "" for none, and
    for a file that cannot be looked at."""
    if os.name != "posix":
        return ""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return readers_of(found, frozenset({os.getegid(), *os.getgroups()}))


def readers_of(found: os.stat_result, own_groups: frozenset[int]) -> str:
    """The same for what is known of the file, and the groups of this process. A file of root that
    one of them may only read has no others: services and containers get secrets this way."""
    mode = stat.S_IMODE(found.st_mode)
    is_given = found.st_uid == 0 and not mode & _NOT_GIVEN and found.st_gid in own_groups
    if is_given or not mode & _BESIDES_OWNER:
        return ""
    return f"{'all users' if mode & stat.S_IRWXO else 'its group'} (mode {mode:04o})"


def warn_of_readers(path: str, content: str) -> None:
    """Warn if other users can read this file, which contains that; once per process, since a
    program makes many clients with one file."""
    if others := readers(path):
        _warn(f"{path} contains {content}, and {others} can use it: run chmod 600 {path}")


@lru_cache(maxsize=256)
def _warn(sentence: str) -> None:
    logger.warning("%s", sentence)
