"""The programs and pages of the background claims: ``examples/why`` and ``docs/why``."""
