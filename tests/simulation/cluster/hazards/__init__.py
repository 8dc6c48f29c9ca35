"""Known bugs, put back: the only measure of what the simulation of a cluster can find."""
