"""Libraries that are not needed until somebody asks for what only they can do."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any


@cache
def library(name: str, extra: str) -> Any:
    """The module. Raises ImportError with a sentence that names the extra that brings it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"this needs {name}, which is not installed: pip install 'ottla[{extra}]'", name=name
        ) from error
