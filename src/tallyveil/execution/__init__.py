"""Runs of each product, from the reading of records to the finished folder."""
