"""What operators and releases need around the package; no part of it."""
