from ottla.protocol.ports import Buffer
from ottla.protocol.records.survey_pure import SoundBatch, Survey

SOURCE_CRC: int

def survey_records(
    data: Buffer, position: int, first: int, stop: int, base_timestamp: int
) -> Survey: ...
def survey_batch(data: memoryview) -> SoundBatch | None: ...
