"""What a class has, and makes when it is first read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class AtFirstUse:
    """Stands in a class's body for an attribute; the first who reads it puts the real one there.

    Works for ``__init__`` and all other special methods. Two threads may make it twice."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, make: Callable[[str], Any]) -> None:
        """``make`` gets the attribute's name."""
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = vars(self._owner)[self._name]
        if made is self:
            made = self._make(self._name)
            setattr(self._owner, self._name, made)
        return made.__get__(instance, owner) if hasattr(type(made), "__get__") else made
