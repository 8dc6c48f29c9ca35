"""The controller as a pure machine: event and image in, store writes and requests out."""
