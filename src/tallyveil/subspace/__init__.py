"""Integer subspace differential privacy: lattices of invariants, laws on them, exact samplers, guarantees."""
