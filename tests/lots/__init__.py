"""What ``make test`` runs: lots of tests, one after the other, and a second attempt for some."""
