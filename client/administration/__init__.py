"""The requests of the admin client."""
