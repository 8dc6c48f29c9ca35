"""What is compiled of the record codec: it is here, and it is what the tree says."""

from __future__ import annotations

import importlib

import pytest

from tests.protocol.records.twins import COMPILED, EXTENSIONS, compiled_or_say_why, source_crc


def test_the_compiled_twin_is_here_wherever_it_can_be() -> None:
    """Without this, a build that fails in silence would be a release that is slow in silence."""
    twin = compiled_or_say_why()

    assert twin is COMPILED


@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_compiled_twin_is_built_from_this_source(name: str) -> None:
    """With a stale build every test passes for a source that was never compiled."""
    compiled_or_say_why()
    try:
        module = importlib.import_module(f"ottla.protocol.records.{name}")
    except ImportError as error:
        pytest.skip(str(error))

    assert source_crc(name) == module.SOURCE_CRC, "install again (make)"
