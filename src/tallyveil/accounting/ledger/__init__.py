"""The ledger: the file of everything that was spent, and its total."""
