"""Budgets on a spine: exact variances of areas, and the search for spines that make these variances small."""
