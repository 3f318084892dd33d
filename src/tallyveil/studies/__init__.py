"""Papers' tables and figures, recomputed: one folder a paper, run by name."""
