"""Group and transaction coordinators on the internal topics."""
