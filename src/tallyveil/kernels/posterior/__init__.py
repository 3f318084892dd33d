"""Moves and updates of a posterior sampler for counts of a whole spine, compiled."""
