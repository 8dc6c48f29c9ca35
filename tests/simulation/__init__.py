"""The whole broker in one seeded, virtual-time loop."""
