"""The packages of the extra `maps`, which are imported only where geometry is used."""

from importlib.util import find_spec
from typing import Final

from tallyveil.errors import ConfigError

PACKAGES: Final = ("shapely", "pyogrio", "pyproj", "mapbox_vector_tile")


def require_maps(what: str) -> None:
    """Refuse work on geometry where the extra `maps` is not installed.

    Args:
        what: What needs it, as the begin of the message.
    Raises:
        ConfigError: a package of the extra is missing.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"{what} needs the package(s) {', '.join(missing)}. Install them with `pip install 'tallyveil[maps]'`.",
            code="maps-extra",
        )
