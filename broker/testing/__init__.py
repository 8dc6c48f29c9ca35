"""A broker for tests and simulations: in memory, faulty on demand."""
