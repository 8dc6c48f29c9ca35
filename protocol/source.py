"""A page of generated Python: lines with their indentation, and the names the lines refer to."""

from __future__ import annotations

from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

INDENT = "    "


class SourceWriter:
    """Collects one function's lines; ``scope`` becomes its global names.

    Fixed-size values are gathered in a run, so that neighbours share one ``struct`` call. End the
    run before opening a block: a run must not straddle a branch."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self.run: list[tuple[str, str]] = []
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def add(self, line: str) -> None:
        self._lines.append(INDENT * self._depth + line)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Indent what is added inside below the header."""
        assert not self.run, "a run of fixed fields straddles a branch"
        self.add(f"{header}:")
        self._depth += 1
        yield
        assert not self.run, "a run of fixed fields straddles a branch"
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A variable that no other line uses."""
        self._names += 1
        return f"{prefix}{self._names}"

    def refer(self, thing: type) -> str:
        """Make a class known to the lines by its own name."""
        name: str = thing.__name__
        known = self.scope.setdefault(name, thing)
        assert known is thing, f"two different {name} in one message"
        return name

    def unpacker(self, formats: str) -> str:
        return self._struct(f"unpack_{formats}", Struct(f">{formats}").unpack_from)

    def packer(self, formats: str) -> str:
        return self._struct(f"pack_{formats}", Struct(f">{formats}").pack)

    def _struct(self, name: str, function: object) -> str:
        name = name.replace("?", "Z")
        self.scope.setdefault(name, function)
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
