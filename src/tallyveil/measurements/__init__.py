"""Noisy measurements and their Parquet files. They leave the wall, and everything after it works with them."""
