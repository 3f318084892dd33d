"""Geocodes and spines: the tree of geounits on which every release is built, and the steps that optimise it."""
