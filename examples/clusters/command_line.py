"""The command: what ``ottla`` does in a shell. ``ottla --help`` has the rest.

    python examples/clusters/command_line.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import json
import subprocess
import sys

import ottla

# %% A cluster in this process, or the one whose address is given.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers


def shell(line: str, stdin: str = "") -> str:
    """What a command says; it fails if that does."""
    words = [sys.executable, "-m", *line.split(), "-b", servers]
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=True)
    return done.stdout.rstrip()


# %% Topics, and lines as records: the key stands before the colon.
print(shell("ottla topics create greetings -p 1"))
# -> created greetings
shell("ottla produce greetings -K :", stdin="en:hello\nfr:bonjour\n")
print(shell("ottla consume greetings --from-beginning -e -f %o:%k=%v\\n"))
# -> 0:en=hello
# -> 1:fr=bonjour

# %% Everything can be had as JSON, for other programs.
(row,) = json.loads(shell("ottla offsets greetings --json"))
print(row)
# -> {...}
assert row["topic"] == "greetings"
cluster.stop()
