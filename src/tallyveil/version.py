"""The version of this package. Rooms import it from here, because the package itself hands on names of higher rooms."""

from typing import Final

VERSION: Final = "0.1.0"
