"""Implements governed work: planning tasks, attempting them, and judging their results."""
