"""Who reads what in a group: the ways to divide partitions among members. Pure."""
