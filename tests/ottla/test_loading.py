"""Loading leaves nothing to the garbage collector but what is garbage."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from ottla.loading import Loading

if TYPE_CHECKING:
    from collections.abc import Iterator


class Node:
    """Something that can be part of a cycle, and looked for."""

    other: object


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    """Every test has the collector as a program finds it, and gives it back so."""
    was_collecting, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.unfreeze()
    gc.enable()
    yield
    if frozen:
        gc.freeze()
    if not was_collecting:
        gc.disable()


def test_what_is_made_meanwhile_counts_as_old() -> None:
    """To walk through all of it as soon as the loading ends takes a tenth of its time."""
    with Loading():
        made = [Node() for _ in range(5000)]
        assert not gc.isenabled()

    assert gc.isenabled()
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation)}
    assert [one for one in made if id(one) in young] == []
    assert gc.get_freeze_count() == 0


def test_garbage_of_the_meantime_is_still_found() -> None:
    """Old is not for ever."""
    with Loading():
        one, other = Node(), Node()
        one.other, other.other = other, one
        watched = weakref.ref(one)
        del one, other

    gc.collect()

    assert watched() is None


def test_a_collector_that_is_off_stays_off() -> None:
    """The program has decided so."""
    gc.disable()

    with Loading():
        pass

    assert not gc.isenabled()


def test_what_a_program_froze_stays_frozen() -> None:
    """Servers freeze before they fork."""
    gc.freeze()
    frozen = gc.get_freeze_count()

    with Loading():
        pass

    assert gc.isenabled()
    # Frozen objects may end meanwhile, but are not let go all at once.
    assert gc.get_freeze_count() > frozen / 2
    gc.unfreeze()


def test_a_failure_brings_the_collector_back() -> None:
    """A module that cannot be loaded is no reason to collect nothing any more."""
    with pytest.raises(ImportError), Loading():
        raise ImportError("gone")

    assert gc.isenabled()
