"""The survey of records: compiled where it was built and the environment does not say
``OTTLA_PURE=1``, else in plain Python. See survey_pure.py for what it does."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol

from ottla.protocol.records import survey_pure
from ottla.protocol.records.preference import may_be_compiled

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.survey_pure import Survey

COMPILED_NAME = "ottla.protocol.records.compiled_survey"


class SurveyTwin(Protocol):
    """What both offer."""

    def survey_records(
        self, data: Buffer, position: int, first: int, stop: int, base_timestamp: int
    ) -> Survey: ...


def _choose() -> SurveyTwin:
    if may_be_compiled():
        try:
            compiled: SurveyTwin = importlib.import_module(COMPILED_NAME)
        except ImportError:
            return survey_pure
        return compiled
    return survey_pure


survey_records = _choose().survey_records
