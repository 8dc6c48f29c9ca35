"""The style rules, executed."""
