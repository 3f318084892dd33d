"""Commands of SafeTab."""
