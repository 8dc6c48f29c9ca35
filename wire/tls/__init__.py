"""TLS over any socket of the seam: sessions in memory, handshakes, certificates."""
