"""Plans of releases, made before any record is opened: inputs, budget, privacy guarantee and needed resources.

No module here reads a record.
"""
