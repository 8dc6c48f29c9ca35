"""What clients need of their process: event loops, threads, background tasks."""
