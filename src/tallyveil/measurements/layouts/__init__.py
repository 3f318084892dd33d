"""Layouts of noisy measurements besides that of a release folder: files that others publish, or want to read."""
