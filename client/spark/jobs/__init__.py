"""Pipelines that are ready to run: ``ottla spark load`` and so on, or as modules, or submitted."""
