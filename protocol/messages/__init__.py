"""One file per API: its request and response, every version.

Four codecs have no handler yet: client quotas (KIP-546) and SCRAM credentials (KIP-554), describe
and alter. The broker stores neither; both belong to its security settings. A test
(``tests/broker/api/test_versions.py``) lists these four, so that no other codec lies idle.
"""
