"""The clients for threads. Each runs its asyncio client on a shared loop."""
