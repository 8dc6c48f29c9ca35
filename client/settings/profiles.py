"""Profiles: named files of client settings in the user's configuration directory.

A profile holds what ``client.properties`` holds, by Kafka's names, addresses and secrets included,
so that no secret stands on a command line. Only the user can read the files.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.settings.spelling import suggestion
from ottla.protocol.properties import format_properties, parse_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

SUFFIX = ".properties"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CURRENT = "current"
_OWNER_ONLY = 0o700
# Of names like sasl.password, ssl.key.password, ssl.keystore.key, sasl.jaas.config.
SECRETS = ("password", "secret", ".key", "key.pem", "jaas.config", "token")


class ProfileError(Exception):
    """A profile that cannot be used; the text is one sentence that says why."""


def directory(environment: Mapping[str, str]) -> Path:
    """The directory of profiles: ``ottla`` below XDG_CONFIG_HOME, by default ``~/.config``."""
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "ottla"


class Profiles:
    """The profiles of one user.

    Args:
        root: Their directory; created with the first profile.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def names(self) -> list[str]:
        """The names of all profiles, sorted."""
        return sorted(path.stem for path in self._files.glob(f"*{SUFFIX}"))

    @property
    def current(self) -> str | None:
        """The name of the profile that commands use unless told otherwise."""
        try:
            return (self._root / _CURRENT).read_text("utf-8").strip() or None
        except FileNotFoundError:
            return None

    def read(self, name: str) -> dict[str, str]:
        """The settings of a profile. Raises ProfileError."""
        return read_properties(self._existing(name))

    def write(self, name: str, settings: Mapping[str, str]) -> Path:
        """Create or replace a profile; return its file. Raises ProfileError and OSError."""
        if not _NAME.fullmatch(name):
            raise ProfileError(
                f"a profile is named by letters, digits, '.', '_' and '-', not {name!r}"
            )
        self._files.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        path = self._path(name)
        # A new file is readable by its owner alone from its first byte on.
        descriptor, temporary = tempfile.mkstemp(dir=self._files)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(format_properties(settings))
        Path(temporary).replace(path)
        return path

    def use(self, name: str | None) -> None:
        """Make a profile the current one; None for no profile. Raises ProfileError and OSError."""
        path = self._root / _CURRENT
        if name is None:
            path.unlink(missing_ok=True)
            return
        self._existing(name)
        path.write_text(f"{name}\n", "utf-8")

    def delete(self, name: str) -> None:
        """Delete a profile; if it is the current one, no profile is. Raises ProfileError."""
        self._existing(name).unlink()
        if self.current == name:
            self.use(None)

    @property
    def _files(self) -> Path:
        return self._root / "profiles"

    def _path(self, name: str) -> Path:
        return self._files / f"{name}{SUFFIX}"

    def _existing(self, name: str) -> Path:
        path = self._path(name)
        if not _NAME.fullmatch(name) or not path.exists():
            hint = suggestion(name, self.names) or "; 'ottla profile list' shows those that exist"
            raise ProfileError(f"there is no profile {name!r}{hint}")
        return path


def is_secret(name: str) -> bool:
    """Whether the value of that setting must not be shown."""
    return any(part in name for part in SECRETS) and not name.endswith(".location")


def read_properties(path: Path) -> dict[str, str]:
    """The settings in a properties file; warns if other users can read secrets in it.

    Raises ProfileError."""
    try:
        settings = parse_properties(path.read_text("utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise ProfileError(f"{path}: {error}") from error
    if secrets := sorted(filter(is_secret, settings)):
        from ottla.wire.tls.client_tls import warn_of_readers

        warn_of_readers(str(path), ", ".join(secrets))
    return settings
