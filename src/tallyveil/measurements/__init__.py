"""Noisy measurements and their Parquet files. They are made behind the wall and used outside it."""
