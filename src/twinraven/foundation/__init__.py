"""Holds what every context stands on: ids, time, JSON and its hashes, schemas, references, predicates, text readers,
settings, errors.

All of it is synchronous and needs no server. It has no facade: import its modules by name.
"""
