"""How a known bug is put back: attributes are replaced for a while."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from tests.simulation.cluster.options import ClusterOptions


class Replacement(NamedTuple):
    """``make`` gets the present attribute and returns its replacement."""

    owner: object
    name: str
    make: Callable[[Any], Any]


@contextmanager
def replaced(replacements: Iterable[Replacement]) -> Iterator[None]:
    """Replace the attributes until the end of the context."""
    with ExitStack() as stack:
        for owner, name, make in replacements:
            before = vars(owner)[name]
            setattr(owner, name, make(before))
            stack.callback(setattr, owner, name, before)
        yield


class Hazard(NamedTuple):
    """``mix`` turns a seed's options into some that are aimed at this bug."""

    what: str
    replacements: tuple[Replacement, ...]
    mix: Callable[[ClusterOptions], ClusterOptions]

    def put_back(self) -> AbstractContextManager[None]:
        """The bug is there until the end."""
        return replaced(self.replacements)
