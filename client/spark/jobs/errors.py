"""Why a job was not done."""

from __future__ import annotations


class JobRefused(Exception):
    """It cannot be done as asked for; the text is a sentence that says why."""
