"""One member of a group as a machine: what to ask the coordinator, what its answers mean. Pure."""
