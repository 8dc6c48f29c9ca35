"""``make bench``: runs every measurement and keeps the results in benchmarks/results/.

``python -m benchmarks NAME…`` runs some of them. Each prints its results beside its target and the
limit that the same machine gave in the same run. Results per core second count the broker's own CPU
time, which other work on the machine disturbs least; the load average is kept with each result.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.at_rest import AT_REST_MEASUREMENTS
from benchmarks.authorization import AUTHORIZATION_MEASUREMENTS
from benchmarks.beside.comparisons import COMPARISONS
from benchmarks.clients import CLIENT_MEASUREMENTS
from benchmarks.cluster import CLUSTER_MEASUREMENTS
from benchmarks.clusters_in_tests import TEST_CLUSTER_MEASUREMENTS
from benchmarks.codec import CODEC_MEASUREMENTS
from benchmarks.conversions import CONVERSION_MEASUREMENTS
from benchmarks.groups import GROUP_MEASUREMENTS
from benchmarks.harness import use_bytecode_cache
from benchmarks.measurements import MEASUREMENTS
from benchmarks.processes import PROCESS_MEASUREMENTS
from benchmarks.scale import SCALE_MEASUREMENTS
from benchmarks.spark import SPARK_MEASUREMENTS
from benchmarks.tls import TLS_MEASUREMENTS
from benchmarks.transactions import TRANSACTION_MEASUREMENTS
from benchmarks.validation import VALIDATION_MEASUREMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RESULTS = Path(__file__).with_name("results")
# The benchmark before leaves some load of its own.
QUIET_LOAD = 2.5


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def _machine() -> str:
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{platform.system()} {platform.release()}, {os.cpu_count()} x {model}"


def run(name: str, measure: Callable[[], Mapping[str, float]]) -> None:
    """Measure, print and keep. Says so if other work uses the machine."""
    before = os.getloadavg()[0]
    if before > QUIET_LOAD:
        sys.stderr.write(f"{name}: the machine is not quiet, its load average is {before:.1f}\n")
    figures = measure()
    sys.stdout.write(f"{name}: {(measure.__doc__ or '').splitlines()[0]}\n")
    for key, value in figures.items():
        sys.stdout.write(f"    {key:44} {value:14,.3f}\n")
    sys.stdout.flush()
    document = {
        "figures": {key: float(f"{value:.4g}") for key, value in figures.items()},
        "commit": _git("rev-parse", "--short", "HEAD"),
        "machine": _machine(),
        "python": platform.python_version(),
        "load_average_before_and_after": [round(before, 2), round(os.getloadavg()[0], 2)],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def main(names: list[str]) -> int:
    """Run the named measurements, or all."""
    use_bytecode_cache()
    known = {
        **MEASUREMENTS,
        **GROUP_MEASUREMENTS,
        **CLUSTER_MEASUREMENTS,
        **TEST_CLUSTER_MEASUREMENTS,
        **TRANSACTION_MEASUREMENTS,
        **CLIENT_MEASUREMENTS,
        **COMPARISONS,
        **TLS_MEASUREMENTS,
        **CODEC_MEASUREMENTS,
        **VALIDATION_MEASUREMENTS,
        **CONVERSION_MEASUREMENTS,
        **AUTHORIZATION_MEASUREMENTS,
        **PROCESS_MEASUREMENTS,
        **SCALE_MEASUREMENTS,
        **AT_REST_MEASUREMENTS,
        **SPARK_MEASUREMENTS,
    }
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.stderr.write(f"there is no {', '.join(unknown)}; there are {', '.join(known)}\n")
        return 2
    for name in names or known:
        run(name, known[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
