"""Families whose fixed counts split the parent into complete tables."""
