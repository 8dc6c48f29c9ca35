"""The commands of a broker's machine."""
