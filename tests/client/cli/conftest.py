"""Commands that run within the test's own process, on a broker for them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.client.cli.command import in_process
from tests.support.memory_broker import memory_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.cli.command import Ottla


@pytest.fixture
def ottla(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Ottla:
    """Runs a command at once."""
    monkeypatch.setenv("COLUMNS", "100")
    return in_process(capfdbinary)


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """Its address. Tests of commands make topics of everyday names."""
    with memory_broker() as address:
        yield address
