"""Chunks of work on the machines of a Ray cluster: the executor, its worker processes, and what goes between them."""
