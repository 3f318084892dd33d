"""Fetch the JavaScript libraries of the pages from the npm registry, at the versions that `vendor.toml` names.

`python tools/vendor.py` fetches every archive, compares it with the hash that `vendor.toml` pins, replaces the copied
files, and writes their hashes to `SHA256SUMS` beside it. Tests compare the files with these hashes.
"""

import hashlib
import io
import shutil
import sys
import tarfile
import tomllib
from base64 import b64encode
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

VENDOR: Final = Path(__file__).parents[1] / "src" / "tallyveil" / "explore" / "vendor"
LIST: Final = VENDOR / "vendor.toml"
SUMS: Final = VENDOR / "SHA256SUMS"
REGISTRY: Final = "https://registry.npmjs.org"


def libraries() -> list[dict[str, Any]]:
    """Every library of `vendor.toml`: name, version, integrity, licence, purpose, patterns of files."""
    listed: list[dict[str, Any]] = tomllib.loads(LIST.read_text(encoding="utf-8"))["library"]
    return listed


def fetch(library: dict[str, Any]) -> bytes:
    """The archive of a library as the registry has it.

    Raises:
        SystemExit: its hash is not the one of `vendor.toml`.
    """
    name, version = library["name"], library["version"]
    with urlopen(f"{REGISTRY}/{name}/-/{name}-{version}.tgz", timeout=60) as answer:
        archive: bytes = answer.read()
    got = f"sha512-{b64encode(hashlib.sha512(archive).digest()).decode()}"
    if got != library["integrity"]:
        sys.exit(
            f"{name} {version}: the archive has the hash {got}, and vendor.toml wants {library['integrity']}."
        )
    return archive


def files_of(archive: bytes, library: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file to copy. npm puts every file into a folder named `package`."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        for member in packed.getmembers():
            path = member.name.removeprefix("package/")
            if not member.isfile() or not _matches(path, library["take"]) or _matches(path, library["leave"]):
                continue
            content = packed.extractfile(member)
            if content is None or ".." in Path(path).parts:
                sys.exit(f"{library['name']}: the archive has a file {path!r} that cannot be copied.")
            yield path, content.read()


def vendor() -> None:
    """Replace the copied files and `SHA256SUMS`."""
    fetched = [(library["name"], dict(files_of(fetch(library), library))) for library in libraries()]
    lines = []
    for name, files in fetched:
        shutil.rmtree(VENDOR / name, ignore_errors=True)
        for path, content in sorted(files.items()):
            target = VENDOR / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}/{path}\n")
    SUMS.write_text("".join(lines), encoding="utf-8")


def _matches(path: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


if __name__ == "__main__":
    vendor()
