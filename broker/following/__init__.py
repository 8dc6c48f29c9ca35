"""Replica fetchers: how a follower copies its leader's log."""
