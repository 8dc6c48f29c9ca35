"""Reads options as Spark passes them: text, under case-insensitive names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ottla.client.settings.config import parse_addresses
from ottla.client.settings.kafka_names import ALIASES
from ottla.client.settings.properties import fields_from
from ottla.client.settings.spelling import one_of, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CLIENT_PREFIX = "kafka."
SERVERS = "kafka.bootstrap.servers"
OTHER_SERVERS = "bootstrapServers"
# The only option of an SQL table without options.
OF_TABLES = {"path"}
TABLE_HINT = (
    "; a table of SQL does not hand its options to sources in Python: create a temporary view"
)

_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d|us)?")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Given:
    """The options of one reader or writer. Every error is a ValueError that names the option."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}

    def check_names(self, known: Iterable[str]) -> None:
        """Raise ValueError for an unknown option other than ``kafka.*``: a mistyped option would
        silently have no effect."""
        names = {name.lower(): name for name in (SERVERS, OTHER_SERVERS, *known)}
        for name in self._values:
            if name not in names and not name.startswith(CLIENT_PREFIX):
                meant = suggestion(name, names)
                for lower, proper in names.items():
                    meant = meant.replace(repr(lower), repr(proper))
                raise ValueError(f"the data source ottla has no option {name!r}{meant}")

    def has(self, name: str) -> bool:
        """Whether the option is given."""
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """The option's value; None if it is not given."""
        return self._values.get(name.lower())

    def truth(self, name: str, *, default: bool) -> bool:
        """The option's value, ``true`` or ``false``."""
        text = self._values.get(name.lower(), str(default)).strip().lower()
        if text not in ("true", "false"):
            raise ValueError(f"the option {name} is true or false, not {text!r}")
        return text == "true"

    def number(self, name: str, *, at_least: int = 1) -> int | None:
        """The option's value as a whole number; None if it is not given."""
        text = self._values.get(name.lower())
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"the option {name} is a whole number, not {text!r}") from None
        if value < at_least:
            raise ValueError(f"the option {name} is at least {at_least}, not {value}")
        return value

    def duration_ms(self, name: str) -> int | None:
        """The option's value in ms, from a text such as ``500ms``, ``30s`` or ``15m``; None if it
        is not given."""
        text = self._values.get(name.lower())
        if text is None:
            return None
        found = _DURATION.fullmatch(text.strip().lower())
        if found is None or found[2] not in (None, *_UNITS_MS):
            raise ValueError(f"the option {name} is a time such as 30s or 15m, not {text!r}")
        return int(found[1]) * _UNITS_MS[found[2] or "ms"]

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """The option's value, which must be one of ``choices``."""
        text = self._values.get(name.lower(), default).strip().lower()
        one_of(f"the option {name}", text, choices)
        return text

    def bootstrap_servers(self) -> str:
        """The bootstrap addresses."""
        name = OTHER_SERVERS if self.has(OTHER_SERVERS) and not self.has(SERVERS) else SERVERS
        servers = self.text(name)
        if not servers:
            hint = "" if self._values.keys() - OF_TABLES else TABLE_HINT
            raise ValueError(f"the option {SERVERS} is missing: the address of a broker{hint}")
        try:
            parse_addresses(servers)
        except ValueError as error:
            raise ValueError(f"the option {name} is wrong: {error}") from None
        return servers

    def client_fields(self, kind: type[Any], refused: Mapping[str, str]) -> dict[str, Any]:
        """The ``kafka.*`` options as fields of that client configuration. ``refused`` gives the
        reason for each property that may not be set, under any of its names."""
        reasons = {_field_of(name): reason for name, reason in refused.items()}
        properties: dict[str, object] = {}
        for name, value in self._values.items():
            if not name.startswith(CLIENT_PREFIX) or name == SERVERS:
                continue
            plain = name.removeprefix(CLIENT_PREFIX)
            if _field_of(plain) in reasons:
                raise ValueError(f"the option {name} cannot be set: {reasons[_field_of(plain)]}")
            properties[plain] = value
        try:
            return fields_from(kind, properties)
        except ValueError as error:
            raise ValueError(f"among the options kafka.*: {error}") from None


def _field_of(name: str) -> str:
    """The field of a property in a client's configuration, if known there."""
    return ALIASES.get(name, name.replace(".", "_"))
