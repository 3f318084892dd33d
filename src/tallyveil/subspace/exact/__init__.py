"""Exact samplers: given uniform random bits, their output has exactly the wanted law (or nearly, as they state)."""
