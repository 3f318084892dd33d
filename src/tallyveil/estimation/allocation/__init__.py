"""Counts of blocks by a model: how blocks resemble each other is learned from the measurements alone."""
