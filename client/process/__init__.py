"""What clients need from their process: event loops, threads, background tasks."""
