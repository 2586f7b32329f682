"""What every context stands on and what stands on nothing: ids, time, JSON and its hashes, schemas, expressions, errors.

Its modules are imported by name, not through this file, so that a command pays only for what it uses.
"""
