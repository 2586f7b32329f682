"""Synthesis: from a mined chain to a definition, with evidence for every choice."""
