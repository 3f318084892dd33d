"""What a release will do, before any record is opened: its inputs, its budget, its guarantee, the resources it needs.

No module here reads a record.
"""
