"""The archive is made. A machine without a network installs it, passes the self-test and makes the demonstration."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
TOOL = PROJECT / "tools" / "bundle"
EPOCH = "1700000000"  # of `archive`, too

pytestmark = pytest.mark.bundle


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_two_copies_of_a_commit_give_the_same_wheel(tmp_path):
    """In two folders, with files of other rights and times."""
    digests = []
    for name, mask in (("first", 0o022), ("second", 0o077)):
        copy = tmp_path / name / "project"
        shell = f"umask {mask:o} && git clone --quiet {PROJECT} {copy} && mkdir {tmp_path / name / 'out'}"
        subprocess.run(["bash", "-c", shell], check=True)
        wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-cache-dir"]
        subprocess.run(
            [*wheel, "--wheel-dir", tmp_path / name / "out", copy],
            check=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        )
        (built,) = (tmp_path / name / "out").glob("*.whl")
        digests.append(digest(built))
    assert digests[0] == digests[1]


PACK = """
import sys
from pathlib import Path
from archive import pack
pack(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
"""


def test_the_unpacked_folder_packs_to_the_same_archive(archive, bundle, tmp_path):
    again = tmp_path / "again.tar"
    subprocess.run(
        [sys.executable, "-c", PACK, bundle, again, EPOCH],
        check=True,
        env={**os.environ, "PYTHONPATH": str(TOOL)},
    )
    assert digest(again) == digest(archive)


def test_every_wheel_is_described(bundle):
    wheels = {digest(path): path.name for path in (bundle / "wheels").iterdir()}
    required = (bundle / "requirements.txt").read_text().splitlines()
    assert {line.rpartition("sha256:")[2] for line in required} == wheels.keys()
    bill = json.loads((bundle / "sbom.cdx.json").read_text())
    components = [bill["metadata"]["component"], *bill["components"]]
    assert {one["hashes"][0]["content"] for one in components} == wheels.keys()
    assert bill["metadata"]["component"]["name"] == "tallyveil"
    assert (
        len(next(one for one in bill["dependencies"] if one["ref"].startswith("tallyveil@"))["dependsOn"])
        > 10
    )
    licences = json.loads((bundle / "licences" / "licences.json").read_text())
    assert len(licences) == len(wheels)
    for one in licences:
        assert one["licence"], one["name"]
        assert all((bundle / name).stat().st_size for name in one["texts"])
    assert not [one["name"] for one in licences if not one["texts"]]


def test_sha256sum_agrees(bundle):
    if shutil.which("sha256sum") is None:
        pytest.skip("needs sha256sum")
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=bundle, check=True)


class Enclave:
    """Namespaces of their own: no network, an empty home, no environment, and the project out of sight."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run(self, *words: object) -> str:
        """What a command prints; it must end well."""
        hidden = f'mount -t tmpfs none "{PROJECT}" && exec "$@"'
        clean = ["env", "-i", f"HOME={self.home}", "PATH=/usr/bin:/bin", "sh", "-c", hidden, "sh"]
        told = subprocess.run(
            ["unshare", "-rmn", *clean, *map(str, words)],
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 0, told.stdout + told.stderr
        return told.stdout


@pytest.fixture(scope="module")
def enclave(tmp_path_factory) -> Enclave:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rmn", "true"], check=False).returncode:
        pytest.skip("needs namespaces of the kernel: `unshare -rmn true`")
    return Enclave(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def programs(enclave, bundle, tmp_path_factory) -> Path:
    """The folder of the programs of an installation that was made without a network."""
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = tmp_path_factory.mktemp("machine") / "tallyveil"
    assert "answers are the known ones" in enclave.run(python, bundle / "install.py", folder)
    return folder / "bin"


def test_there_is_no_network(enclave, programs):
    with pytest.raises(AssertionError, match="Network is unreachable"):
        enclave.run(
            programs / "python", "-c", "import urllib.request as r; r.urlopen('http://192.0.2.1', timeout=5)"
        )


def test_the_self_test_takes_less_than_a_minute(enclave, programs):
    """Of the processor, also where no kernel is compiled yet, as for one of which the wheel carries none."""
    before = os.times()
    enclave.run("env", "NUMBA_CPU_FEATURES=", programs / "tallyveil", "selftest", "--quiet")
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    assert seconds < 60, f"{seconds:.0f} s"


def test_the_demonstration_is_made(enclave, programs):
    enclave.run(programs / "tallyveil", "demo", "--out", "demo", "--quiet")
    assert (enclave.home / "demo" / "release" / "manifest.json").is_file()
    page = (enclave.home / "demo" / "release" / "report.html").read_text()
    assert not re.findall(
        r"""(?:src|href)\s*=\s*["'](?!#|data:)|url\((?!#|["']?data:)|@import|<script""", page
    )
    assert (
        json.loads(enclave.run(programs / "tallyveil", "selftest", "--topdown", "--json"))["passed"] is True
    )


def test_no_call_of_the_system_is_about_a_network(programs, tmp_path):
    """Where there is a network, too: the kernel is asked for no socket, by Python or by a compiled library."""
    asked = ["strace", "-qq", "-e", "trace=none", "true"]
    if shutil.which("strace") is None or subprocess.run(asked, check=False).returncode:
        pytest.skip("needs strace, and the right to use it")

    def calls(*words: object) -> str:
        trace = tmp_path / "calls.txt"
        command = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=%net", "-o", trace, *words]
        subprocess.run(command, check=True, cwd=tmp_path)
        return trace.read_text()

    assert "socket(" in calls(programs / "python", "-c", "import socket; socket.socket()")
    assert calls(programs / "tallyveil", "demo", "--blocks", "30", "--out", "demo", "--quiet") == ""
