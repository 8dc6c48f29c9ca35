"""Copies topics of one or several clusters into another, with partitions and translated offsets."""
