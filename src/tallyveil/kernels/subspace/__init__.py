"""Samplers on the lattice of vectors that keep the invariants, compiled."""
