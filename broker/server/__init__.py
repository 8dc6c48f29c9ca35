"""The broker as a whole: how its parts are made, started and stopped."""
