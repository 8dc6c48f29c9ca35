"""Consumer groups under chaos: members that die, sleep and come back, and what must hold then."""
