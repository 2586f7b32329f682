"""Synthesises a definition from a mined chain, with evidence for every choice."""
