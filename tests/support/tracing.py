"""Whether system calls can be watched here."""

from __future__ import annotations

import shutil
import subprocess


def can_trace() -> bool:
    """Whether strace is there and allowed to work."""
    if shutil.which("strace") is None:
        return False
    traced = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return traced.returncode == 0
