"""Whether what is compiled may be used: ``OTTLA_PURE=1`` in the environment says no.

That is how a doubt about compiled code is settled where it runs, and how the tests and benchmarks
of the plain Python twins keep to them.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def may_be_compiled() -> bool:
    """Asked once by each module that has a choice."""
    return os.environ.get("OTTLA_PURE", "") in ("", "0")


def compiled_twin(name: str, *functions: str) -> Any:
    """The compiled module with these functions; None where the plain Python twin must do.

    So it must where nothing compiled may be used, where the module was not built, and where it was
    built from an older tree that had fewer functions."""
    if not may_be_compiled():
        return None
    try:
        twin = importlib.import_module(name)
    except ImportError:
        return None
    return twin if all(hasattr(twin, function) for function in functions) else None


def of_version(version: int, twin: Any, forms: Sequence[tuple[int, str, Any]]) -> Any:
    """What reads or writes that version: of the compiled twin if there is one, or else plain.

    ``forms``, newest first, are the first version of each, its name in the twin, and the plain
    function."""
    name, plain = next((name, plain) for first, name, plain in forms if version >= first)
    return getattr(twin, name) if twin else plain
