"""The same clients for programs that do not use asyncio: every method waits for its result."""
