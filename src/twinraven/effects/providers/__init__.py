"""Providers that come with the house: files in a folder, and services that speak HTTP with idempotency keys."""
