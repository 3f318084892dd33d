"""The office desk: from a register to a release file, step by step, in a browser or at a terminal."""
