"""Our ``NamedTuple`` behaves like the standard library's."""

from __future__ import annotations

import copy
import inspect
import pickle
import types
import typing
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest

from ottla.protocol import named_tuples

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# The original and ours; type checkers know one of them only.
KINDS: tuple[Any, Any] = (typing.NamedTuple, vars(named_tuples)["NamedTuple"])


def plain(base: Any) -> Any:
    class Point(base):  # type: ignore[misc]
        """A place."""

        x: int
        y: dict[str, int] | None

        scale = 3

        @property
        def far(self) -> int:
            return self.x * self.scale

        @classmethod
        def at(cls, x: int) -> Any:
            return cls(x, None)

        def __str__(self) -> str:
            return f"<{self.x}>"

    return Point


def with_defaults(base: Any) -> Any:
    class Offset(base):  # type: ignore[misc]
        topic: str
        partition: int = 0
        metadata: str | None = None

    return Offset


def single(base: Any) -> Any:
    class Only(base):  # type: ignore[misc]
        value: int

    return Only


def documented_nowhere(base: Any) -> Any:
    class Many(base):  # type: ignore[misc]
        a: int
        b: int
        c: int
        d: int
        e: int
        f0: int
        f2: int
        f1: int

    return Many


def empty(base: Any) -> Any:
    class Empty(base):  # type: ignore[misc]
        pass

    return Empty


def generic(base: Any) -> Any:
    class Box(base, Generic[T]):  # type: ignore[misc]
        held: T
        count: int = 1

    return Box


DECLARATIONS = [plain, with_defaults, single, documented_nowhere, empty, generic]
SOME = ("first", 2, None, 4, 5.0, "six", b"7", (8,))


def instance(made: Any) -> Any:
    return made(*SOME[: len(made._fields)])


def look(made: Any) -> dict[str, object]:
    """The properties of a class that callers can see."""
    fields = made._fields
    return {
        "fields": fields,
        "defaults": made._field_defaults,
        "match": made.__match_args__,
        "slots": vars(made)["__slots__"],
        "doc": made.__doc__,
        "new doc": made.__new__.__doc__,
        "bases": made.__bases__,
        "name": (made.__name__, made.__qualname__, made.__module__),
        "new name": (made.__new__.__name__, made.__new__.__qualname__),
        "field docs": [vars(made)[name].__doc__ for name in fields],
        "field kinds": [type(vars(made)[name]) for name in fields],
        "parameters": [
            (one.name, one.kind, one.default) for one in inspect.signature(made).parameters.values()
        ],
        "attributes": {name for name in dir(made) if name not in MINOR},
        "orig bases": vars(made).get("__orig_bases__"),
    }


# What depends on how a class came to be, and on the version of Python.
MINOR = {"__orig_bases__", "__static_attributes__", "__firstlineno__", "__annotations_cache__"}


def use(made: Any) -> list[object]:
    """The behaviour of its instances."""
    one, same = instance(made), made._make(SOME[: len(made._fields)])
    other = one._replace(**{name: 0 for name in made._fields[:1]})
    return [
        repr(one),
        str(one),
        repr(other),
        one == same,
        one == tuple(one),
        one < (*one, 1),
        hash(one) == hash(tuple(one)),
        one._asdict(),
        list(one._asdict()),
        [getattr(one, name) for name in made._fields],
        tuple(copy.copy(one)),
        tuple(copy.deepcopy(one)),
        one.__getnewargs__(),
        len(one),
        isinstance(one, tuple),
    ]


@pytest.mark.parametrize("declare", DECLARATIONS)
def test_the_classes_look_the_same(declare: Callable[[Any], Any]) -> None:
    """Signatures, names, documentation, attributes."""
    original, ours = (declare(kind) for kind in KINDS)
    expected, found = look(original), look(ours)
    # Ours is its own base where it is left to the standard library.
    assert found.pop("orig bases") == expected.pop("orig bases")

    assert found == expected


@pytest.mark.parametrize("declare", DECLARATIONS)
def test_the_instances_do_the_same(declare: Callable[[Any], Any]) -> None:
    """Representation, equality, hash, order, copies, replaced fields."""
    original, ours = (declare(kind) for kind in KINDS)

    assert use(ours) == use(original)


def _failure(work: Callable[[], object]) -> tuple[type[BaseException], str]:
    try:
        work()
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("nothing failed")


MISUSES: dict[str, Callable[[Any], object]] = {
    "too few": lambda made: made(),
    "too many": lambda made: made(1, 2, 3, 4),
    "unknown": lambda made: made(1, nonsense=2),
    "twice": lambda made: made(1, 2, x=3),
    "make too few": lambda made: made._make([1]),
    "replace unknown": lambda made: made(1, 2)._replace(nonsense=3),
    "set": lambda made: setattr(made(1, 2), "x", 3),
    "set unknown": lambda made: setattr(made(1, 2), "nonsense", 3),
    "delete": lambda made: delattr(made(1, 2), "x"),
}


@pytest.mark.parametrize("misuse", MISUSES.values(), ids=MISUSES)
def test_misuse_fails_the_same_way(misuse: Callable[[Any], object]) -> None:
    """The same exception with the same text."""
    original, ours = (plain(kind) for kind in KINDS)

    assert _failure(lambda: misuse(ours)) == _failure(lambda: misuse(original))


BAD: dict[str, dict[str, object]] = {
    "default before": {"__annotations__": {"a": "int", "b": "int"}, "a": 1},
    "underscore": {"__annotations__": {"_a": "int"}},
    "keyword": {"__annotations__": {"class": "int"}},
    "taken": {"__annotations__": {"a": "int"}, "_make": 1},
    "own new": {"__annotations__": {"a": "int"}, "__new__": 1},
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_wrong_declarations_fail_the_same_way(body: dict[str, object]) -> None:
    """They are left to the standard library to complain about."""

    def declare(kind: Any) -> object:
        given = {"__module__": "m", **body}
        return types.new_class("Wrong", (kind,), {}, lambda space: space.update(given))

    original, ours = KINDS

    assert _failure(lambda: declare(ours)) == _failure(lambda: declare(original))


if TYPE_CHECKING:
    from typing import NamedTuple
else:
    NamedTuple = KINDS[1]


class Kept(NamedTuple):
    """Found by pickle under its name."""

    a: int
    b: list[str]


class Derived(Kept):
    """A subclass with state of its own."""

    def twice(self) -> int:
        return self.a * 2


class Named:
    """Wants to know where it stands."""

    name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"{owner.__name__}.{name}"


@pytest.mark.parametrize("made", [Kept, Derived])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_instances_survive_pickle(made: Any, protocol: int) -> None:
    """Every protocol, and derived classes too."""
    one = made(1, ["b"])

    back = pickle.loads(pickle.dumps(one, protocol))

    assert type(back) is made
    assert back == one


def test_hints_are_found() -> None:
    """The annotations are texts, and mean what they say."""
    assert typing.get_type_hints(Kept) == {"a": int, "b": list[str]}
    assert inspect.get_annotations(Kept, eval_str=True) == {"a": int, "b": list[str]}


def test_a_derived_class_keeps_its_type() -> None:
    """Made, replaced or shown, it stays what it is."""
    one = Derived._make([1, ["b"]])

    assert type(one._replace(a=2)) is Derived
    assert repr(one) == "Derived(a=1, b=['b'])"
    assert one.twice() == 2


def test_patterns_match_by_position() -> None:
    """``__match_args__`` in use."""
    match Kept(1, ["b"]):
        case Kept(1, b):
            assert b == ["b"]
        case _:
            pytest.fail("not matched")


def test_methods_may_ask_for_what_is_above() -> None:
    """``super`` without arguments knows the class, where the standard library refuses it."""

    class Loud(NamedTuple):
        a: int

        def __repr__(self) -> str:
            return super().__repr__().upper()

    assert repr(Loud(1)) == "(1,)"


def test_descriptors_are_told_their_names() -> None:
    """As in any class."""

    class Holder(NamedTuple):
        a: int
        held = Named()  # type: ignore[misc]

    assert Holder.held.name == "Holder.held"


def test_classes_of_a_size_do_not_share_names() -> None:
    """They are copies of one function, and each has its own parameters."""
    ours = KINDS[1]

    first, second = plain(ours), documented_nowhere(ours)
    third = generic(ours)

    assert (first(x=1, y=2).x, third(held=1, count=2).count) == (1, 2)
    # Not even where the names are those of the copied function, in another order.
    assert second(1, 2, 3, 4, 5, f1=8, f2=7, f0=6) == (1, 2, 3, 4, 5, 6, 7, 8)


def test_an_equality_of_ones_own_leaves_the_hash() -> None:
    """The original attaches it to a class that has the tuple's already."""

    def hashed(base: Any) -> int:
        class Loose(base):  # type: ignore[misc]
            x: int

            def __eq__(self, other: object) -> bool:
                return True

        return hash(Loose(1))

    assert hashed(KINDS[1]) == hashed(KINDS[0]) == hash((1,))
