"""Outer passes: the counts of some cells for the whole spine, then those of the cells inside them."""
