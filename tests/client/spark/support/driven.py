"""A streaming query without Spark: asks the source what Spark asks, in Spark's order."""

from __future__ import annotations

import json
import pickle
from typing import Any

from ottla.client.spark.stream_reader import StreamReader
from tests.client.spark.support.topics import given, offsets_in


class Query:
    """One query with its checkpoint; ``restarted`` is another run of it."""

    def __init__(self, broker: str, **options: object) -> None:
        self._broker, self._options = broker, options
        self.reader = StreamReader(given(broker, options))
        # The text that the checkpoint has for each batch; the last may not be done.
        self.ends: list[str] = []
        self.done = 0

    def restarted(self, is_done: bool = True, **options: object) -> Query:
        """After a crash, by which the last batch was done or not."""
        self.reader.stop()
        query = Query(self._broker, **{**self._options, **options})
        query.ends = self.ends
        query.done = len(self.ends) - (0 if is_done else 1)
        return query

    def start(self) -> dict[str, Any]:
        """Start offsets of the next batch, asked for twice, as Spark does."""
        if self.done:
            found: dict[str, Any] = json.loads(self.ends[self.done - 1])
            return found
        self.reader.initialOffset()
        return json.loads(json.dumps(self.reader.initialOffset()))  # type: ignore[no-any-return]

    def batch(self) -> dict[int, list[int]] | None:
        """Run the next batch, or repeat the one that was not done; None if there is nothing to
        do."""
        if self.done == len(self.ends):
            start = self.start()
            end = json.dumps(self.reader.latestOffset(start, self.reader.getDefaultReadLimit()))
            if end == json.dumps(start) and self.ends:
                return None
            self.ends.append(end)
        found = self._read()
        self.done += 1
        return found

    def _read(self) -> dict[int, list[int]]:
        tasks = self.reader.partitions(self.start(), json.loads(self.ends[self.done]))
        worker = pickle.loads(pickle.dumps(self.reader))
        return offsets_in(worker, pickle.loads(pickle.dumps(list(tasks))))
