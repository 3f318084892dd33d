"""Finds out, in a process of its own, whether a Ray cluster answers whoever has no token.

`python -m tallyveil.runs.cluster.probe ADDRESS` is run with RAY_AUTH_MODE=disabled, so that Ray sends no token. Its
exit code says what the cluster did. Any other exit code means that no cluster answered.
"""

import socket
import sys
from importlib import import_module
from typing import Final

# Neither is a code that Python or a shell gives by itself (0, 1, 2, 126 and above), so a crash is not an answer.
ANSWERED: Final = 70
REFUSED: Final = 71  # the cluster demands a token
# A head in a local network answers in milliseconds; twice as long would only delay the message that none is there.
CONNECT_SECONDS: Final = 10.0


def main() -> None:
    """Ask the head of the cluster for the numbers of its nodes."""
    host, _, port = sys.argv[1].rpartition(":")
    # Ray would try a port at which nothing listens again and again for 40 seconds.
    socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    refused: type[Exception] = import_module("ray.exceptions").AuthenticationError
    try:
        # Ray's own time limit for this call, in seconds.
        import_module("ray._raylet").GcsClient(address=sys.argv[1]).check_alive([], 10.0)
    except refused:
        sys.exit(REFUSED)
    sys.exit(ANSWERED)


if __name__ == "__main__":
    main()
