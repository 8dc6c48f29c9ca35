"""Lists the assignors by name. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.client.group.assignors.ranges import RangeAssignor
from ottla.client.group.assignors.round_robin import RoundRobinAssignor
from ottla.client.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ottla.client.group.assignors.assignor import Assignor

ASSIGNORS: Mapping[str, Callable[[], Assignor]] = MappingProxyType(
    {
        RangeAssignor.name: RangeAssignor,
        RoundRobinAssignor.name: RoundRobinAssignor,
        StickyAssignor.name: StickyAssignor,
        CooperativeStickyAssignor.name: CooperativeStickyAssignor,
    }
)


def make_assignors(wanted: Iterable[str | Assignor]) -> list[Assignor]:
    """Return one member's assignors in its order of preference; objects are taken as they are.

    Raises ValueError for an unknown name, a duplicate name, and an empty list."""
    found: list[Assignor] = []
    for one in wanted:
        if isinstance(one, str):
            make = ASSIGNORS.get(one)
            if make is None:
                raise ValueError(f"no assignor is called {one!r}; there are {', '.join(ASSIGNORS)}")
            found.append(make())
        elif isinstance(getattr(one, "name", None), str):
            found.append(one)
        else:
            raise TypeError(f"an assignor is a name or an object that has one, not {one!r}")
    names = [assignor.name for assignor in found]
    if not names:
        raise ValueError("a member of a group needs at least one assignor")
    if len(set(names)) != len(names):
        raise ValueError(f"two assignors have one name: {', '.join(names)}")
    return found
