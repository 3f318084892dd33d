"""One table with exact margins, released by the integer-subspace mechanism."""
