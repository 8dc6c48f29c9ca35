"""The operating system behind the seams: disk, worker process, limits."""
