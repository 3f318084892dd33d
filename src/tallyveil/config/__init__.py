"""Strict TOML to domain objects; the only floor that knows pydantic."""
