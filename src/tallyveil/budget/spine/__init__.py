"""Budgets on a spine: exact variances of areas, and spines that make them small."""
