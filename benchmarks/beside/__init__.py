"""The same loads by the same clients against Ottla and Apache Kafka, in turn, as ratios.

All systems run at the same time and are driven one after the other, round after round, so that what
disturbs one disturbs all. ``ratios`` makes the table, ``picture`` draws it.
"""
