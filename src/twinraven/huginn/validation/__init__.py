"""Validation: replay on sessions that synthesis did not see."""
