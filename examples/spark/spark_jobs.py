"""Ready jobs of Spark from a shell: topics as Parquet files, every row once.

    python examples/spark/spark_jobs.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints. Needs
``pip install '.[spark]'`` and Java 17 or 21. ``ottla spark --help`` has the other jobs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and a topic.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topic(ottla.NewTopic("clicks", 2, 1))
with ottla.sync.Producer(servers) as producer:
    for number in range(4):
        producer.send("clicks", b"page %d" % number, partition=number % 2)


def spark(line: str) -> str:
    """What ``ottla spark`` says to that; it fails if that does."""
    words = [sys.executable, "-m", "ottla", "spark", *line.split(), "-b", servers]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.rstrip()


# %% A timer may run this as often as it likes: each run loads what is new since the last one.
scratch = tempfile.TemporaryDirectory(prefix="ottla-spark-")
lake = Path(scratch.name) / "lake"
told = json.loads(spark(f"load --topics clicks --to {lake} --window day --master local[2]"))
print(told["load"], told["rows"], told["offsets"])
# -> 1 4 {'clicks': {'0': [0, 2], '1': [0, 2]}}

# %% The files are there as soon as all rows are, beside the offsets that they are of.
print(sorted(path.name for path in (lake / "load=00000001").glob("[!.]*")))
# -> ['_SUCCESS', '_offsets.json', 'topic=clicks']
rows = [
    (row["partition"], row["offset"], row["value"])
    for path in sorted(lake.rglob("*.parquet"))
    for row in pyarrow.parquet.read_table(path, partitioning=None).to_pylist()
]
print(sorted(rows))
# -> [(0, 0, b'page 0'), (0, 1, b'page 2'), (1, 0, b'page 1'), (1, 1, b'page 3')]
cluster.stop()
scratch.cleanup()
