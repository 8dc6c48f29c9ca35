"""The embedded store of one process, served to the other processes of its machine."""
