"""An index that keeps its offset: what is flushed and where to go on are one file.

python examples/programs/search_index.py HOST:PORT TOPIC DIRECTORY

The index is kept in segments. A segment that is flushed knows the offset behind its last record, so
after a crash the reader goes on there: what was indexed and not flushed is read again, and nothing
is in the index twice. The broker keeps no position for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ottla
import ottla.sync

RECORDS_PER_SEGMENT = 100
QUIET_MS = 500


class Index:
    """Words, and the offsets of the records that they are in; of one partition."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._words: dict[str, list[int]] = {}
        self._count = 0
        self.next_offset = 0
        for path in sorted(directory.glob("*.json")):
            segment = json.loads(path.read_text("utf-8"))
            self.next_offset = segment["next_offset"]

    def add(self, offset: int, text: str) -> None:
        """One record; flushes a segment that is full."""
        for word in set(text.lower().split()):
            self._words.setdefault(word, []).append(offset)
        self.next_offset = offset + 1
        self._count += 1
        if self._count == RECORDS_PER_SEGMENT:
            self.flush()

    def flush(self) -> None:
        """Words and offset at once: the renaming is the moment at which both are there."""
        if not self._count:
            return
        path = self._directory / f"{self.next_offset:020}.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"next_offset": self.next_offset, "words": self._words}))
        part.replace(path)
        self._words, self._count = {}, 0

    def find(self, word: str) -> list[int]:
        """The offsets of the records with that word, as far as they are flushed."""
        found: list[int] = []
        for path in sorted(self._directory.glob("*.json")):
            found += json.loads(path.read_text("utf-8"))["words"].get(word.lower(), [])
        return found


def follow(bootstrap: str, topic: str, index: Index) -> None:
    """Index what is there, from where the flushed segments end."""
    where = ottla.TopicPartition(topic, 0)
    with ottla.sync.Consumer(bootstrap) as consumer:
        consumer.assign([where])
        consumer.seek(where, index.next_offset)
        while records := consumer.poll(QUIET_MS):
            for record in records:
                index.add(record.offset, (record.value or b"").decode())


def main() -> None:
    """Index all there is, then say how large the index is."""
    bootstrap, topic, directory = sys.argv[1:]
    index = Index(Path(directory))
    follow(bootstrap, topic, index)
    index.flush()
    print(f"indexed up to offset {index.next_offset}")


if __name__ == "__main__":
    main()
