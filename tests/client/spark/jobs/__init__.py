"""Pipelines that are ready to run."""
