"""The group coordinator's machine."""
