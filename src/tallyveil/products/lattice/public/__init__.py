"""The plan of a table with exact invariants, and its file."""
