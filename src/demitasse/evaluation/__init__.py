"""Scores of an encoder at every cut, with intervals. No torch."""
