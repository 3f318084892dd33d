"""Intervals of a finished release: the model of its estimates, and the job that writes them."""
