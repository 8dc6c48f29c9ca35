"""Decides about transactional ids of one partition of ``__transaction_state`` (KIP-98, KIP-890)."""
