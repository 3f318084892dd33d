"""Compiled bottlenecks, each with a plain numpy twin (`<name>_reference`) that is its specification."""
