"""Reads TOML files strictly and turns them into plans. No other package uses pydantic."""
