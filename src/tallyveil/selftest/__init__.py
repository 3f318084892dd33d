"""Known answers, computed again on this machine: ciphers, hashes, noise, costs, and small releases of made-up people.

A check compares what this installation computes with an answer that was fixed before, and names where that answer comes
from. The answers are the same on every platform.
"""
