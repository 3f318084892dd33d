"""Recompute the tables and figures of papers: one folder for each paper. A study is run by its name."""
