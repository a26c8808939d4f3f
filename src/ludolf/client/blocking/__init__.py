"""The typed commands without asyncio; all but `asking` is made by scripts/make_sync_client.py."""
