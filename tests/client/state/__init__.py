"""The pure halves of the client."""
