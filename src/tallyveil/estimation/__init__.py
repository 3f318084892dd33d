"""Noisy measurements of a family to non-negative whole counts."""
