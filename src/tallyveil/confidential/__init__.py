"""The wall: the only package that sees records or true counts."""
