"""The controller as a pure state machine: events in, store writes and control requests out."""
