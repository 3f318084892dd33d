"""Divides a privacy-loss budget in exact fractions, and predicts the error that each division leads to."""
