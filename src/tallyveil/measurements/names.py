"""Where noisy measurements lie in a release folder.

These names are needed to open a release. They are not in `store`, whose imports load the compiler of the kernels.
"""

from pathlib import Path
from typing import Final

from tallyveil.storage.paths import file_name, inside

FOLDER: Final = "measurements"
ANSWER_LABELS: Final = f"{FOLDER}/answers.parquet"


def measurement_name(geolevel: str, query: str) -> str:
    """Folder with the parts of one query's noisy answers, relative to the release folder."""
    return f"{FOLDER}/{file_name(geolevel)}/{file_name(query)}"


def measurement_folder(root: Path, geolevel: str, query: str) -> Path:
    """The folder of `measurement_name` in a release folder."""
    return inside(root, *measurement_name(geolevel, query).split("/"))


def drawn_name(geolevel: str, query: str) -> str:
    """File of noisy counts drawn on a lattice, relative to the release folder."""
    return f"{FOLDER}/{file_name(geolevel)}/integer-subspace.{file_name(query)}.parquet"


def drawn_path(root: Path, geolevel: str, query: str) -> Path:
    """The file of `drawn_name` in a release folder."""
    return inside(root, *drawn_name(geolevel, query).split("/"))
