"""The simulated world: event loop, clocks, network, disks and nodes under virtual time."""
