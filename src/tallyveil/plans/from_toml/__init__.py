"""Reads the TOML files of releases strictly and turns them into plans."""
