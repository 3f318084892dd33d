"""Write one archive from which a machine without a network installs Tallyveil: `python tools/bundle --out FOLDER`."""

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from archive import CHECKSUMS, checksums, pack
from kernels import build_platform_wheel
from sbom import bill_of_materials
from wheels import Wheel, download, requirements, source_epoch, wheels_in

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
LOCK = HERE / "requirements.lock"
PAGES = ("README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")
NOT_PAGES = (".py", ".css")

README = """\
Tallyveil {version} for Python {python} on {platform}

1. Compare the SHA-256 of the archive with the one that you were given by another way.
2. python3 install.py FOLDER      checks every file, installs into the new folder FOLDER, and runs the self-test.
3. FOLDER/bin/tallyveil demo      makes a release of made-up people (FOLDER\\Scripts\\tallyveil on Windows).

No step uses a network.

wheels/            Tallyveil and every package that it needs
requirements.txt   the same, with their hashes
sbom.cdx.json      bill of materials, CycloneDX 1.6; sbom/ has those that wheels carry for libraries compiled into them
licences/          the texts of their licences; licences.json says which licence each package states
docs/              the documentation, as Markdown; docs/assurance.md answers the questions of a security officer
SHA256SUMS         digests of all these files: sha256sum --check SHA256SUMS
"""


def main() -> None:
    """Build, download, describe and pack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PROJECT / "dist", help="folder for the archive")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    epoch = source_epoch(PROJECT)
    with TemporaryDirectory(prefix="tallyveil-bundle-") as temporary:
        own = build_platform_wheel(Path(temporary), epoch)
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        about = {"version": own.version, "python": python, "platform": sysconfig.get_platform()}
        folder = Path(temporary) / "-".join(["tallyveil", *about.values()])
        (folder / "wheels").mkdir(parents=True)
        own.path.rename(folder / "wheels" / own.path.name)
        download(LOCK, folder / "wheels")
        write_contents(folder, about, epoch)
        archive = out / f"{folder.name}.tar"
        pack(folder, archive, epoch)
    print(f"{Wheel(archive).sha256}  {archive}")


def write_contents(folder: Path, about: dict[str, str], epoch: int) -> None:
    """Write all that stands beside the wheels."""
    wheels = wheels_in(folder / "wheels")
    _write(folder / "requirements.txt", requirements(wheels))
    _write(folder / "sbom.cdx.json", bill_of_materials(wheels, epoch))
    write_licences(folder, wheels)
    for name in _git("ls-files", "-z", "--", "docs", *PAGES).split("\0")[:-1]:
        if not name.endswith(NOT_PAGES):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT / name, folder / name)
    shutil.copyfile(HERE / "install.py", folder / "install.py")
    _write(folder / "README.txt", README.format_map(about))
    made = {**about, "source_date": datetime.fromtimestamp(epoch, UTC).isoformat()}
    _write(folder / "bundle.json", json.dumps(made, indent=2) + "\n")
    _write(folder / CHECKSUMS, checksums(folder))


def write_licences(folder: Path, wheels: list[Wheel]) -> None:
    """Write the licences of all wheels, and the bills of materials that they carry."""
    stated = []
    for wheel in wheels:
        texts = {f"licences/{wheel.name}/{name}": data for name, data in wheel.licence_files().items()}
        parts = {f"sbom/{wheel.name}/{Path(name).name}": data for name, data in wheel.stated_parts().items()}
        for name, data in {**texts, **parts}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        stated.append(
            {"name": wheel.name, "version": wheel.version, "licence": wheel.licence, "texts": sorted(texts)}
        )
    _write(folder / "licences" / "licences.json", json.dumps(stated, indent=2) + "\n")


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", PROJECT, *words], capture_output=True, text=True, check=True).stdout


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
