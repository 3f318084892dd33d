"""TopDown: a hierarchical release, from records to a finished folder."""
