"""SafeTab and SafeTab-H: runs that make detailed tables, and the comparison of such tables with the true counts."""
