"""Numbers that users derive from a finished release: chosen areas, districts, sums, shares and ratios."""
