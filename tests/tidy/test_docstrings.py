"""The docstrings of the public surface: every argument explained, in Google's style.

The public surface is what ``ottla``, ``ottla.sync``, ``ottla.serializers`` and the pytest plugin
export, with the public methods of the exported classes.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import ottla
import ottla.classic
import ottla.pytest_plugin
import ottla.serializers
import ottla.sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

PLUGIN = ("cluster_fixture", "topic_fixture", "ottla_client_config", "pytest_addoption")
# Classes without fields that applications create; the client creates the others.
CREATED = ("Admin", "Cluster", "Columns", "Consumer", "Producer", "Serde")
CLIENTS = (
    ottla.Producer,
    ottla.Consumer,
    ottla.Admin,
    ottla.sync.Producer,
    ottla.sync.Consumer,
    ottla.sync.Admin,
)


class Documented(NamedTuple):
    """A public function or class, its docstring, and the names to explain."""

    name: str
    text: str
    parameters: list[str]


def exports() -> Iterator[tuple[str, Any]]:
    """Every public name with its object."""
    surfaces: list[tuple[ModuleType, Any]] = [
        (ottla, ottla.__all__),
        (ottla.sync, ottla.sync.__all__),
        (ottla.classic, ottla.classic.__all__),
        (ottla.serializers, ottla.serializers.__all__),
        (ottla.pytest_plugin, PLUGIN),
    ]
    for module, names in surfaces:
        for name in names:
            yield f"{module.__name__}.{name}", getattr(module, name)


def parameters_of(function: Any) -> list[str]:
    """The parameters of a function that a caller sees."""
    names = list(inspect.signature(function).parameters)
    return [name for name in names if name not in ("self", "cls")]


def methods_of(name: str, kind: type[Any]) -> Iterator[Documented]:
    """The public methods of a class, inherited ones included."""
    for owner in kind.__mro__:
        if not owner.__module__.startswith("ottla."):
            continue
        for key, member in vars(owner).items():
            plain = getattr(member, "__func__", member)
            if not key.startswith("_") and inspect.isfunction(plain):
                text = inspect.cleandoc(plain.__doc__ or "")
                yield Documented(f"{name}.{key}", text, parameters_of(plain))


def fields_of(kind: type[Any]) -> list[str]:
    """The arguments of a class's constructor that the application passes."""
    if dataclasses.is_dataclass(kind):
        return [one.name for one in dataclasses.fields(kind)]
    if kind.__name__ in CREATED and "__init__" in vars(kind):
        return [name for name in parameters_of(vars(kind)["__init__"]) if name != "self"]
    return list(getattr(kind, "_fields", ()))


def surface() -> list[Documented]:
    """The public functions, classes and methods."""
    found = []
    for name, value in exports():
        if inspect.isclass(value):
            texts = [inspect.cleandoc(owner.__doc__ or "") for owner in value.__mro__[:-1]]
            found.append(Documented(name, "\n\n".join(texts), fields_of(value)))
            found += methods_of(name, value)
        elif inspect.isfunction(value):
            found.append(
                Documented(name, inspect.cleandoc(value.__doc__ or ""), parameters_of(value))
            )
    return found


def unexplained(one: Documented) -> list[str]:
    """The parameters without an entry in a section ``Args:`` or ``Attributes:``."""
    sections = re.findall(r"^(?:Args|Attributes):\n((?:(?: .*)?\n?)*)", one.text, re.MULTILINE)
    entries = re.findall(r"^    (\w+): ", "\n".join(sections), re.MULTILINE)
    return [name for name in one.parameters if name not in entries]


def test_every_argument_of_the_public_surface_is_explained() -> None:
    """Editors show the docstring; a reader should need no other page for the call."""
    missing = {one.name: names for one in surface() if (names := unexplained(one))}

    assert missing == {}


def test_every_public_function_and_class_has_a_summary_line() -> None:
    """One sentence that ends, before any section."""
    bare = [
        one.name
        for one in surface()
        if not re.search(r"[.:;]$", one.text.split("\n\n")[0].rstrip())
    ]

    assert bare == []


@pytest.mark.parametrize("kind", CLIENTS)
def test_help_of_a_client_lists_each_setting_with_its_default(kind: type[Any]) -> None:
    """The fields of the configuration appear in ``help(ottla.Producer)``."""
    settings = inspect.cleandoc(kind.__doc__ or "").partition("\nSettings:\n")[2]
    name = f"{kind.__name__}Config" if kind.__name__ != "Admin" else "ClientConfig"
    fields = dataclasses.fields(getattr(ottla, name))

    shown = re.findall(r"^    (\w+) \(default .+", settings, re.MULTILINE)
    assert shown == [one.name for one in fields]
    assert "): \n" not in f"{settings}\n"


def test_a_missing_entry_is_found() -> None:
    """The check itself: one of two parameters is explained."""
    text = "Do it.\n\nArgs:\n    first: The first.\n\nReturns:\n    second: no.\n"

    assert unexplained(Documented("f", text, ["first", "second"])) == ["second"]
