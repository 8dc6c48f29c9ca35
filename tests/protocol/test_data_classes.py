"""Our ``dataclass`` behaves like the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
import threading
import typing
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol import data_classes
from ottla.protocol.constructors import AtFirstUse
from tests.protocol.data_class_samples import DECLARATIONS, PLAIN, changing, frozen

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:
    dataclass = data_classes.dataclass

# The original and ours; type checkers know one of them only.
KINDS: tuple[Any, Any] = (dataclasses.dataclass, vars(data_classes)["dataclass"])


def instance(made: Any, first: int = 0) -> Any:
    """An instance with a value for each required field."""
    required = [
        one
        for one in dataclasses.fields(made)
        if one.init
        and one.default is dataclasses.MISSING
        and one.default_factory is dataclasses.MISSING
    ]
    values = {one.name: number for number, one in enumerate(required, first)}
    return made(**values)


def look(made: Any) -> dict[str, object]:
    """The properties of a class that callers can see."""
    return {
        "doc": made.__doc__,
        "match": made.__match_args__,
        "slots": vars(made).get("__slots__"),
        "bases": made.__bases__,
        "name": (made.__name__, made.__qualname__, made.__module__),
        "init": (made.__init__.__name__, made.__init__.__qualname__),
        "init annotations": dict(made.__init__.__annotations__),
        "signature": str(inspect.signature(made)),
        "fields": [
            (one.name, one.type, one.default, one.init, one.repr, one.kw_only, dict(one.metadata))
            for one in dataclasses.fields(made)
        ],
        "params": repr(made.__dataclass_params__),
        "attributes": {name for name in vars(made) if name not in MINOR},
        "has hash": made.__hash__ is None,
        "is": dataclasses.is_dataclass(made),
        "annotations": made.__annotations__,
        "methods": [
            getattr(made, name).__qualname__
            for name in ("__repr__", "__eq__", "__init__", "__setattr__")
            if name in vars(made)
        ],
    }


MINOR = {"__static_attributes__", "__firstlineno__", "__annotations_cache__"}
if sys.version_info < (3, 11, 3):
    # With slots, the standard library left behind what the class without them had.
    MINOR.add("__weakref__")


def _tried(work: Callable[[], object]) -> object:
    """The result of the call, or the type and text of its error."""
    try:
        return work()
    except Exception as error:
        return type(error), str(error)


def use(made: Any) -> list[object]:
    """The behaviour of its instances."""
    one, same, other = instance(made), instance(made), instance(made, 5)
    names = [single.name for single in dataclasses.fields(made)]
    first = names[0] if names else "nonsense"
    return [
        repr(one) if made.__repr__ is not object.__repr__ else None,
        one == same,
        one == other,
        one != same,
        one == 0,
        _tried(lambda: hash(one) == hash(same)),
        _tried(lambda: {one: 1}[one]),
        [getattr(one, name) for name in names],
        dataclasses.astuple(one),
        dataclasses.asdict(one),
        _tried(lambda: dataclasses.astuple(dataclasses.replace(one, **{first: 9}))),
        dataclasses.astuple(copy.copy(one)),
        dataclasses.astuple(copy.deepcopy(one)),
        _tried(lambda: setattr(one, first, 1)),
        # The original refuses it with an error of its own making, by mistake.
        isinstance(_tried(lambda: setattr(one, "nonsense", 1)), tuple),
        _tried(lambda: delattr(other, first)),
        isinstance(_tried(lambda: delattr(other, "nonsense")), tuple),
        _tried(lambda: one < same),
        _tried(lambda: made(*range(50))),
        _tried(lambda: made(nonsense=1)),
        repr(_tried(made)),
    ]


@pytest.mark.parametrize("declare", DECLARATIONS)
def test_the_classes_look_the_same(declare: Callable[[Any], Any]) -> None:
    """Signatures, names, documentation, fields, attributes."""
    original, ours = (declare(kind) for kind in KINDS)

    assert look(ours) == look(original)


@pytest.mark.parametrize("declare", DECLARATIONS)
def test_the_instances_do_the_same(declare: Callable[[Any], Any]) -> None:
    """Representation, equality, hash, copies, replaced fields, and every refusal."""
    original, ours = (declare(kind) for kind in KINDS)

    assert use(ours) == use(original)


@pytest.mark.parametrize("declare", PLAIN)
def test_plain_classes_are_made_here(declare: Callable[[Any], Any]) -> None:
    """Nothing is compiled for them before it is asked for."""
    made = declare(KINDS[1])

    assert isinstance(vars(made)["__init__"], AtFirstUse)
    assert isinstance(vars(made)["__dataclass_fields__"], AtFirstUse)


@pytest.mark.parametrize("declare", PLAIN)
def test_to_make_instances_costs_nothing_later(declare: Callable[[Any], Any]) -> None:
    """The first instance puts a function where the class's own would be."""
    made = declare(KINDS[1])
    values = {
        one.name: 1
        for one in inspect.signature(made).parameters.values()
        if one.default is inspect.Parameter.empty
    }

    made(**values)

    assert inspect.isfunction(vars(made)["__init__"])
    assert isinstance(vars(made)["__dataclass_fields__"], AtFirstUse)


BAD: dict[str, dict[str, object]] = {
    "default before": {"__annotations__": {"a": "int", "b": "int"}, "a": 1},
    "field behind a default": {
        "__annotations__": {"a": "int", "b": "int"},
        "a": 1,
        "b": field(),
    },
    "made before": {"__annotations__": {"a": "int", "b": "int"}, "a": field(default_factory=list)},
    "shared list": {"__annotations__": {"a": "list"}, "a": []},
    "shared dict": {"__annotations__": {"a": "dict"}, "a": field(default={})},
    "not annotated": {"__annotations__": {"a": "int"}, "b": field(default=1)},
    "own setter": {"__annotations__": {"a": "int"}, "__setattr__": 1},
    "slots": {"__annotations__": {"a": "int"}, "__slots__": ("b",)},
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_wrong_declarations_fail_the_same_way(body: dict[str, object]) -> None:
    """They are left to the standard library to complain about."""

    def declare(kind: Any) -> object:
        return kind(frozen=True, slots=True)(type("Wrong", (), {"__module__": __name__, **body}))

    original, ours = _tried(lambda: declare(KINDS[0])), _tried(lambda: declare(KINDS[1]))

    assert ours == original
    assert isinstance(original, tuple)


@dataclass(frozen=True, slots=True)
class Kept:
    """Found by pickle under its name."""

    a: int
    b: list[str] = field(default_factory=list)


@dataclass(slots=True)
class KeptAndChanged:
    """The same, but not frozen."""

    a: int
    b: list[str] = field(default_factory=list)


class Derived(Kept):
    """A subclass with a dictionary of its own."""

    def __init__(self, a: int) -> None:
        super().__init__(a)
        self.more = a + 1

    def __repr__(self) -> str:
        return f"<{super().__repr__()}>"


@dataclass(frozen=True, slots=True)
class Longer(Kept):
    """A data class of a data class."""

    c: int = 3


@pytest.mark.parametrize("made", [Kept, KeptAndChanged, Longer])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_instances_survive_pickle(made: Any, protocol: int) -> None:
    """Slots have no dictionary that could be kept."""
    one = made(1, ["b"])

    back = pickle.loads(pickle.dumps(one, protocol))

    assert type(back) is made
    assert back == one


def test_hints_are_found() -> None:
    """The annotations are texts, and mean what they say."""
    hints = {"a": int, "b": list[str]}

    assert typing.get_type_hints(Kept) == hints
    assert typing.get_type_hints(Kept.__init__) == {**hints, "return": type(None)}


def test_defaults_are_fresh() -> None:
    """Each instance has a list of its own."""
    one, other = Kept(1), Kept(1)
    one.b.append("x")

    assert other.b == []


def test_derived_classes_build_on_it() -> None:
    """Plain ones and data classes, with what is made later still to come, or there already."""
    assert repr(Derived(1)) == "<Derived(a=1, b=[])>"
    assert Derived(1).more == 2
    assert Longer(1, ["b"]) == Longer(1, ["b"], 3)
    assert [one.name for one in dataclasses.fields(Longer)] == ["a", "b", "c"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Derived(1).a = 2  # type: ignore[misc]


def test_a_cycle_is_shown() -> None:
    """A representation that holds itself ends."""
    one = KeptAndChanged(1)
    one.b.append(one)  # type: ignore[arg-type]

    assert "..." in repr(one)


def test_not_a_number_equals_itself_in_both() -> None:
    """Identity counts before equality, as in tuples, where it does in the original."""
    value = float("nan")
    original, ours = (frozen(kind) for kind in KINDS)

    assert (ours(value, None) == ours(value, None)) == (
        original(value, None) == original(value, None)
    )


def test_threads_may_be_first_together() -> None:
    """A late thread finds what the first has stored, or stores the same again."""
    for _ in range(20):
        made = changing(KINDS[1])
        start = threading.Barrier(4)
        seen: list[tuple[str, list[str]]] = []

        def first(made: Any = made, start: Any = start, seen: Any = seen) -> None:
            start.wait(60)
            one = made(1)
            seen.append((repr(one), [each.name for each in dataclasses.fields(one)]))

        threads = [threading.Thread(target=first) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(seen) == 4
        assert len({str(one) for one in seen}) == 1


@pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace came with 3.13")
def test_copy_replace_works() -> None:
    """The newer way to say it."""
    assert vars(copy)["replace"](Kept(1), a=2) == Kept(2)
