"""The parsers of all client verbs. They load no client, so ``--help`` is quick."""
