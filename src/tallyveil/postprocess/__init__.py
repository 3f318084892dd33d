"""Everything that is made from noisy measurements and public facts alone.

No module here imports the confidential side, directly or through another module; the import contracts check it.
"""
