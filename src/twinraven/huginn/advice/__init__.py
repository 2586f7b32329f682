"""Asks a model for advice: it may word a draft and propose sources for open arguments; replay decides what is kept."""
