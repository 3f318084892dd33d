"""The kinds of release, one room each: what only one product needs stands together."""
