"""Toys to try the simulator on before it judges the real broker."""
