"""The command lines of all client verbs. Nothing here loads a client, so ``--help`` is quick."""
