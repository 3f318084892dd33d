"""Kernels of the allocation of a parent's counts to its blocks by a model (`tallyveil.estimation.allocation`)."""
