"""The pages of a table with exact invariants."""
