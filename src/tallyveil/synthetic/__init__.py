"""A made-up country of any size, for the demo, tests and benchmarks."""
