"""Install Tallyveil from this folder, without a network: `python3 install.py FOLDER`.

It needs Python and nothing else. It checks every file against SHA256SUMS, makes a virtual environment in FOLDER,
installs the wheels there by their hashes, and runs `tallyveil selftest`.
"""

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKSUMS = "SHA256SUMS"


def main() -> None:
    """Check, install, and test."""
    if len(sys.argv) != 2:
        sys.exit(
            "Usage: python3 install.py FOLDER, where FOLDER is a new folder for the virtual environment."
        )
    into = Path(sys.argv[1])
    require_checksums(HERE)
    require_machine(json.loads((HERE / "bundle.json").read_text(encoding="utf-8")))
    if into.exists() and any(into.iterdir()):
        sys.exit(f"The folder {into} is not empty. Name a new folder.")
    venv.create(into, with_pip=True)
    programs = into / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run(
        [
            *(
                programs / "python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-cache-dir",
            ),
            *("--no-index", "--find-links", HERE / "wheels", "--only-binary", ":all:"),
            *("--require-hashes", "--requirement", HERE / "requirements.txt"),
        ],
        # Settings of pip outside this folder could name other places to install from.
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
            "PIP_CONFIG_FILE": os.devnull,
        },
        check=True,
    )
    print(f"Installed in {into}. The self-test follows.", flush=True)
    sys.exit(subprocess.run([programs / "tallyveil", "selftest"], check=False).returncode)


def require_checksums(folder: Path) -> None:
    """End with a message if a file is missing, was changed, or is not listed."""
    listed = {}
    for line in (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        listed[name] = digest
    present = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    del present[CHECKSUMS]
    wrong = [f"{name} is missing" for name in sorted(listed.keys() - present.keys())]
    wrong += [f"{name} is not listed" for name in sorted(present.keys() - listed.keys())]
    for name in sorted(listed.keys() & present.keys()):
        with present[name].open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != listed[name]:
                wrong.append(f"{name} was changed")
    if wrong:
        sys.exit(f"This folder is not the bundle that was made. {'; '.join(wrong)}. Nothing was installed.")


def require_machine(bundle: dict[str, str]) -> None:
    """End with a message if the wheels are for another version of Python or another platform."""
    here = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "platform": sysconfig.get_platform(),
    }
    for name, found in here.items():
        if bundle[name] != found:
            sys.exit(f"This bundle is for {name} {bundle[name]}; this is {found}. Nothing was installed.")


if __name__ == "__main__":
    main()
