"""Engines: each bounds the tails of a composition's privacy loss, from both sides."""
