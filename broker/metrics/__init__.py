"""What a broker tells whoever watches it: families of figures, read when somebody asks."""
