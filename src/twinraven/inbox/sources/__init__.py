"""Collects the sources of inbox items, one per kind of decision."""
