"""The verbs for transactions."""
