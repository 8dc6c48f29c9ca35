"""Planted bugs: one for each promise that the code makes, to see whether a test notices.

``make mutants`` copies the tree, plants one bug at a time and runs the tests that ought to fail. A
bug that no test notices within three minutes is a survivor: the promise that it breaks is kept by
luck. The tables of bugs lie beside this file, one for each room; a test in ``tests/tidy``
checks that every bug can still be planted, and that each invariant of
docs/internals/invariants.md has one.
"""
