"""Commands that run within the test's own process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.client.cli.command import in_process

if TYPE_CHECKING:
    from tests.client.cli.command import Ottla


@pytest.fixture
def ottla(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Ottla:
    """Runs a command at once."""
    monkeypatch.setenv("COLUMNS", "100")
    return in_process(capfdbinary)
