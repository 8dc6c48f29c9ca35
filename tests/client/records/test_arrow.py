"""Records as Arrow data."""

from __future__ import annotations

import subprocess
import sys

from ottla.client.records.arrow import to_arrow
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.columns import Columns

WHERE = TopicPartition("orders", 3)
PLAIN = Columns.of([(7, 8, None, b"v", ())])
WITH_HEADERS = Columns.of(
    [(1, 2, None, b"v", (("a", b"x"), ("b\udcff", None))), (2, 3, b"k", None, ())]
)


def test_headers_come_with_their_rows_whatever_they_hold() -> None:
    """Buffers are put together by hand here: a wrong end would give one row another's headers."""
    batch = to_arrow(WHERE, [PLAIN, WITH_HEADERS, PLAIN])

    batch.validate(full=True)
    assert batch.column("headers").to_pylist() == [
        [],
        [{"key": "a", "value": b"x"}, {"key": "b\ufffd", "value": None}],
        [],
        [],
    ]
    assert batch.column("topic").to_pylist() == ["orders"] * 4


def test_arrow_data_is_made_without_pandas() -> None:
    """To load it takes longer than to read a million records."""
    program = (
        "import sys; from tests.client.records.test_arrow import *;"
        "to_arrow(WHERE, [PLAIN, PLAIN]); to_arrow(WHERE, [WITH_HEADERS]);"
        "sys.exit('pandas' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
