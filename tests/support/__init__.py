"""Builders and loaders that several tests share."""
