"""The planted bugs, one file for each room of the tree."""
