"""Real processes, kill -9, disks left behind."""
