"""SafeTab and SafeTab-H: runs of detailed tables, and their comparison with the truth."""
