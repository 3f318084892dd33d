"""The wall: the only floor that sees records or true counts."""
