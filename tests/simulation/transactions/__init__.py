"""A cluster with transactional producers and pipelines under chaos: ``--transactions``."""
