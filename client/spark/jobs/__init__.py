"""Ready-made pipelines: run as ``ottla spark load`` and so on, as modules, or with spark-submit."""
