"""Finds out, in a process of its own, whether a Ray cluster answers whoever has no token.

`python -m tallyveil.runs.cluster.probe ADDRESS` is run with RAY_AUTH_MODE=disabled, so that Ray sends no token. It
prints "open" if the cluster answers, and "closed" if the cluster refuses.
"""

import sys
from importlib import import_module


def main() -> None:
    """Ask the head of the cluster for the numbers of its nodes."""
    refused: type[Exception] = import_module("ray.exceptions").AuthenticationError
    try:
        import_module("ray._raylet").GcsClient(address=sys.argv[1]).check_alive([], 10.0)
    except refused:
        sys.stdout.write("closed\n")
    else:
        sys.stdout.write("open\n")


if __name__ == "__main__":
    main()
