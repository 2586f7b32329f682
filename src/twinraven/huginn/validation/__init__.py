"""Validates drafts by replay on sessions that synthesis did not see."""
