"""What one replica of one partition may do: pure machines."""
