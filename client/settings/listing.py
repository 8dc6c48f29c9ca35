"""Lists the settings of a client in its docstring, each with its default.

``help(ottla.Producer)`` shows them. The names and defaults come from the fields of the
configuration class and the explanations from its docstring, so that the list cannot drift.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.settings.config import ClientConfig

Kind = TypeVar("Kind", bound=type)

COLUMNS = 96
KIB = 1024
ENTRY = re.compile(r"^    (\w+): ", re.MULTILINE)


def lists_settings(config: type[ClientConfig]) -> Callable[[Kind], Kind]:
    """Decorate a client class: append the settings to its docstring."""

    def extended(kind: Kind) -> Kind:
        # Without docstrings (python -OO) there is nothing to append to.
        if kind.__doc__ is not None:
            kind.__doc__ = f"{inspect.cleandoc(kind.__doc__)}\n\n{settings_text(config)}"
        return kind

    return extended


def settings_text(config: type[ClientConfig]) -> str:
    """A section with a line for each field: its name, its default and its explanation."""
    explained = explanations(config)
    lines = ["Settings:"]
    for one in fields(config):
        entry = f"{one.name} (default {default_text(one)}): {explained.get(one.name, '')}"
        lines += textwrap.wrap(entry, COLUMNS, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(lines)


def explanations(config: type[ClientConfig]) -> dict[str, str]:
    """The explanation of each field, from the ``Args:`` of the class and of its bases."""
    found: dict[str, str] = {}
    for kind in reversed(config.__mro__):
        _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("\nArgs:\n")
        name, *rest = ENTRY.split(f"\n{section}")[1:] or [""]
        for key, text in zip([name, *rest[1::2]], rest[::2], strict=False):
            found[key] = " ".join(text.split())
    return found


def default_text(one: Field[object]) -> str:
    """The default as a keyword argument; sizes also in KiB or MiB."""
    value = one.default
    if value is MISSING and one.default_factory is not MISSING:
        value = one.default_factory()
    if isinstance(value, Enum):
        return repr(value.name.lower())
    if type(value) is int and value >= KIB and value % KIB == 0:
        size = f"{value // KIB**2} MiB" if value % KIB**2 == 0 else f"{value // KIB} KiB"
        return f"{value}, {size}"
    return repr(value)
