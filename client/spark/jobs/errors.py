"""The error of a job that cannot run."""

from __future__ import annotations


class JobRefused(Exception):
    """The job cannot run as requested; the text says why."""
