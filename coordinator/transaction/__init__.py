"""Transactional ids of one partition of ``__transaction_state``: decisions only (KIP-98, 890)."""
