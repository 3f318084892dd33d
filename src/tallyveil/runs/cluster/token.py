"""The token that a Ray cluster demands, read where Ray reads it."""

import os
from pathlib import Path
from typing import Final

from tallyveil.errors import ClusterError

TOKEN: Final = "RAY_AUTH_TOKEN"
TOKEN_PATH: Final = "RAY_AUTH_TOKEN_PATH"
MODE: Final = "RAY_AUTH_MODE"


def read_token() -> bytes | None:
    """The token of this machine: of RAY_AUTH_TOKEN, else of the file RAY_AUTH_TOKEN_PATH, else of ~/.ray/auth_token.

    Returns:
        None if there is none.
    Raises:
        ClusterError: RAY_AUTH_TOKEN_PATH names a file that cannot be read.
    """
    if os.environ.get(TOKEN, "").strip():
        return os.environ[TOKEN].strip().encode()
    named = os.environ.get(TOKEN_PATH, "").strip()
    path = Path(named) if named else Path.home() / ".ray" / "auth_token"
    try:
        return path.read_bytes().strip() or None
    except OSError as error:
        if not named:
            return None
        raise ClusterError(
            f"the token of the Ray cluster cannot be read: {TOKEN_PATH} names a file that gives "
            f"{type(error).__name__}. Correct the path or the file's mode.",
            code="cluster-token",
        ) from None
