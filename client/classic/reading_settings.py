"""Parses settings by their names in the documents of 0.7 and 0.8. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.settings.security import is_security, security_from
from ottla.client.settings.spelling import suggestion
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Settings = dict[str, Any]
"""Values by field."""


class DocumentedKey(NamedTuple):
    """A setting's field, None if it has no effect here, and the parser of its value."""

    field: str | None
    read: Callable[[str, object], object]


def text(name: str, value: object) -> str:
    """Parse a text with at least one character."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is a text with at least one character, not {value!r}")
    return value.strip()


def number(name: str, value: object) -> int:
    """Parse a whole number, also from a text."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError
        return int(value)
    except ValueError:
        raise ValueError(f"{name} is a whole number, not {value!r}") from None


def positive(name: str, value: object) -> int:
    """Parse a whole number above 0."""
    found = number(name, value)
    if found < 1:
        raise ValueError(f"{name} has to be at least 1, not {found}")
    return found


def switch(name: str, value: object) -> bool:
    """Parse true or false, also from a text."""
    found = {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise ValueError(f"{name} is true or false, not {value!r}")
    return found


def anything(_: str, value: object) -> object:
    """Return the value unchanged: an application's object, or a value without effect."""
    return value


def choice(*choices: str) -> Callable[[str, object], str]:
    """Parse one of these texts."""

    def read(name: str, value: object) -> str:
        if value not in choices:
            raise ValueError(f"{name} is one of {', '.join(choices)}, not {value!r}")
        return str(value)

    return read


def keys(
    field: str | None, read: Callable[[str, object], object], *names: str
) -> dict[str, DocumentedKey]:
    """Return one setting under all of its names."""
    return dict.fromkeys(names, DocumentedKey(field, read))


def read_settings(
    properties: Mapping[str, object], known: Mapping[str, DocumentedKey], needed: Iterable[str] = ()
) -> Settings:
    """Return the values by field; ``security`` contains the settings of TLS and logins.

    Raises ValueError for a name that is unknown or missing, and for two names of one setting with
    different values."""
    secure = {name: value for name, value in properties.items() if is_security(name)}
    found: Settings = {"security": security_from(secure)} if secure else {}
    named: dict[str, str] = {}
    for name, value in properties.items():
        if name in secure:
            continue
        key = known.get(name)
        if key is None:
            raise ValueError(f"there is no setting {name!r}{suggestion(name, known)}")
        read = key.read(name, value)
        if key.field is None:
            continue
        if key.field in found and found[key.field] != read:
            raise ValueError(f"{named[key.field]} and {name} are one setting with two values")
        found[key.field], named[key.field] = read, name
    for field in needed:
        if field not in found:
            names = " or ".join(name for name, key in known.items() if key.field == field)
            raise ValueError(f"the setting {names} is missing")
    return found
