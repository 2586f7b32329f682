"""Advice: a model may word a draft and propose sources for what stayed open; the record decides what is kept."""
