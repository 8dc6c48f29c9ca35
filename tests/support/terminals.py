"""Launchers, to put before a command: what terminals do to the processes in them."""

from __future__ import annotations

import sys

# What starts the tests may ignore SIGHUP, as nohup does, and its children would as well.
HEARS_HANGUPS = (
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL);"
    " os.execvp(sys.argv[1], sys.argv[1:])",
)
# Standard input becomes the terminal of a process that leads a new session.
IN_A_TERMINAL = (
    sys.executable,
    "-c",
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execvp(sys.argv[1], sys.argv[1:])",
)
