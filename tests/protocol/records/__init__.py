"""Record batches: vectors, properties, foreign encoders, bombs and mutations."""
