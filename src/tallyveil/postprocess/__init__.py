"""Work that uses only noisy measurements and public facts.

No module here imports the confidential side, directly or through another module; the import contracts check it.
"""
