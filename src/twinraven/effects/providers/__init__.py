"""Provides the built-in effect providers: files in a folder, and HTTP services with idempotency keys."""
