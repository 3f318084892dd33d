"""Sweeps up and down a spine, and searches for better spines, compiled."""
