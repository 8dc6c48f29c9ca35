"""Data classes of every sort, declared with whatever is given as ``dataclass``."""

from __future__ import annotations

from dataclasses import InitVar, field
from typing import Any, ClassVar


def frozen(kind: Any) -> Any:
    @kind(frozen=True, slots=True)
    class Place:
        """A place."""

        a: int
        b: dict[str, int] | None
        c: str = "c"

        LIMIT = 3

        @property
        def far(self) -> int:
            return self.a * self.LIMIT

    return Place


def changing(kind: Any) -> Any:
    @kind(slots=True)
    class Count:
        a: int
        b: list[str] = field(default_factory=list)
        c: dict[str, int] = field(default_factory=dict)
        d: int = field(default=7)

    return Count


def by_name(kind: Any) -> Any:
    @kind(frozen=True, slots=True, kw_only=True)
    class Settings:
        a: int = 1
        b: int
        c: list[int] = field(default_factory=lambda: [3])

    return Settings


def prepared(kind: Any) -> Any:
    @kind(frozen=True, slots=True)
    class Prepared:
        a: int
        b: int = 2
        total: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.a + self.b)

    return Prepared


def by_identity(kind: Any) -> Any:
    @kind(slots=True, eq=False)
    class Thing:
        a: int
        b: int = 2

    return Thing


def with_own_methods(kind: Any) -> Any:
    @kind(frozen=True, slots=True)
    class Own:
        a: int
        b: int = 2

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return other == self.a

        def __getstate__(self) -> Any:
            return [self.a, self.b]

    return Own


def with_own_hash(kind: Any) -> Any:
    @kind(slots=True)
    class Hashed:
        a: int

        def __hash__(self) -> int:
            return 11

    return Hashed


def without_hash(kind: Any) -> Any:
    @kind(frozen=True, slots=True)
    class Unhashed:
        a: int
        __hash__ = None  # type: ignore[assignment]

    return Unhashed


def with_numbered_names(kind: Any) -> Any:
    @kind(frozen=True, slots=True)
    class Numbered:
        f1: int
        f0: int
        f3: int = 3
        f2: int = 2

    return Numbered


def with_words_of_ours(kind: Any) -> Any:
    @kind(frozen=True, slots=True)
    class Words:
        put: int
        FRESH: list[int] = field(default_factory=list)
        other: int = 1
        hash: int = 2

    return Words


def with_self(kind: Any) -> Any:
    @kind(slots=True)
    class Selfish:
        self: int
        a: int = 2

    return Selfish


def empty(kind: Any) -> Any:
    @kind(frozen=True, slots=True)
    class Empty:
        pass

    return Empty


def large(kind: Any) -> Any:
    body = {f"name_{number}": "int" for number in range(40)}
    return kind(frozen=True, slots=True)(
        type("Large", (), {"__annotations__": body, "__module__": __name__, "__doc__": "Many."})
    )


# These are left to the standard library.


def without_slots(kind: Any) -> Any:
    @kind
    class Loose:
        a: int
        b: int = 2

    return Loose


def ordered(kind: Any) -> Any:
    @kind(slots=True, order=True)
    class Ordered:
        a: int
        b: int = 2

    return Ordered


def unusual(kind: Any) -> Any:
    @kind(slots=True)
    class Unusual:
        a: int
        b: ClassVar[int] = 3
        c: InitVar[int] = 4  # type: ignore[assignment]
        d: int = field(default=5, repr=False, compare=False)
        e: int = field(default=6, kw_only=True, metadata={"unit": "ms"})

        def __post_init__(self, c: int) -> None:
            self.a += c

    return Unusual


PLAIN = [
    frozen,
    changing,
    by_name,
    prepared,
    by_identity,
    with_own_methods,
    with_own_hash,
    without_hash,
    with_numbered_names,
    large,
]
DECLARATIONS = [
    *PLAIN,
    with_words_of_ours,
    with_self,
    empty,
    without_slots,
    ordered,
    unusual,
]
