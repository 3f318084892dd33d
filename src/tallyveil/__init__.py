"""Tallyveil: hierarchical counts of people, published with differential privacy."""

__version__ = "0.1.0"
