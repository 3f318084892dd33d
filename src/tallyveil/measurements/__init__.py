"""Noisy measurements and their Parquet layout: the only thing that crosses the wall."""
