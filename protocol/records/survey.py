"""The survey of records: compiled where it was built and the environment does not say
``OTTLA_PURE=1``, else in plain Python. See survey_pure.py for what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.protocol.records import survey_pure
from ottla.protocol.records.batch import MAGIC, RecordBatch
from ottla.protocol.records.preference import compiled_twin

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.survey_pure import SoundBatch, Survey

COMPILED_NAME = "ottla.protocol.records.compiled_survey"


class SurveyTwin(Protocol):
    """What both offer."""

    def survey_records(
        self, data: Buffer, position: int, first: int, stop: int, base_timestamp: int
    ) -> Survey: ...

    def survey_batch(self, data: memoryview) -> SoundBatch | None: ...


_twin: SurveyTwin = compiled_twin(COMPILED_NAME, "survey_records", "survey_batch") or survey_pure

survey_records = _twin.survey_records
survey_batch = _twin.survey_batch


def surveyed_batch(data: memoryview) -> RecordBatch | None:
    """The batch that the bytes are, if ``survey_batch`` finds it sound. HOT."""
    fields = survey_batch(data)
    if fields is None:
        return None
    batch = RecordBatch()
    batch.buffer = data
    batch.position = batch.base_offset = batch.attributes = 0
    batch.magic = MAGIC
    (
        batch.size_bytes,
        batch.leader_epoch,
        batch.crc,
        batch.record_count,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    ) = fields
    batch.last_offset_delta = batch.record_count - 1
    return batch
