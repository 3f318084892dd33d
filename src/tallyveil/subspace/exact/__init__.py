"""Exact samplers: their output has the law asked for, given random bits, with no chain to converge."""
