"""The verbs that write and read records."""
