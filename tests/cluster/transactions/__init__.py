"""Transactions and commits of real clusters while brokers die or freeze."""
