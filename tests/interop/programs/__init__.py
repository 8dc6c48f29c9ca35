"""Programs that drive a broker with a foreign client: steps in, results out, one JSON each."""
