"""Runs use AES-256 and SHA-256 alone, and numba SHA-1. A machine that refuses one of them is refused at once.

A process for each case, because OpenSSL reads its settings once, and a process loads one FIPS provider once.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.samples import nightly

ONLY_WHAT_IS_NEEDED = """
import hashlib
import sys
from cryptography.hazmat.primitives.ciphers import algorithms, modes

def refuse(*given, **named):
    raise ValueError("[digital envelope routines] unsupported")

hashlib_new = hashlib.new
hashlib.new = lambda name, *given, **named: (hashlib_new if name == "sha256" else refuse)(
    name, *given, **named
)
for name in hashlib.algorithms_guaranteed - {"sha256", "sha1"}:
    setattr(hashlib, name, refuse)
for kinds, names in ((algorithms, ("AES128", "ChaCha20")), (modes, ("CBC", "CTR", "GCM", "XTS"))):
    for name in names:
        getattr(kinds, name).__init__ = refuse
"""
"""Other hashes, and the usual other ciphers and modes, fail when they are called."""

PYTHONS_OWN_HASHES = """
import sys
sys.modules["_hashlib"] = None
"""
"""Python computes hashes itself, so that only `cryptography` uses OpenSSL."""

COMMAND = """
from tallyveil.cli.main import main
main()
"""

DEMANDS_FIPS = """
openssl_conf = openssl_init
{include}
[openssl_init]
providers = provider_sect
alg_section = algorithm_sect
[provider_sect]
{provider}
base = base_sect
[base_sect]
activate = 1
[algorithm_sect]
default_properties = fips=yes
"""


def ran(before: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that does something else first."""
    return subprocess.run(
        [sys.executable, "-c", before + COMMAND, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def files(folder: Path) -> dict[str, bytes]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items()}


def settings(folder: Path, provider: str, include: str = "") -> str:
    path = folder / "openssl.cnf"
    path.write_text(DEMANDS_FIPS.format(provider=provider, include=include))
    return str(path)


@pytest.mark.nightly
def test_a_release_needs_no_other_algorithm(small_release, tmp_path, command):
    words = ("run", small_release, "--insecure-test-key", "fips", "--quiet", "--out")
    command(*words, tmp_path / "usual")
    told = ran(ONLY_WHAT_IS_NEEDED, *words, tmp_path / "only")
    assert told.returncode == 0, told.stderr
    assert files(tmp_path / "only") == files(tmp_path / "usual")


def test_other_algorithms_are_in_fact_refused():
    calls = (
        "hashlib.md5()",
        "hashlib.blake2b()",
        "hashlib.new('sha1')",
        "algorithms.ChaCha20(b'', b'')",
        "modes.CTR(b'')",
    )
    tries = f"""
for call in {calls}:
    try:
        eval(call)
    except ValueError as refused:
        print(call, refused)
"""
    told = subprocess.run(
        [sys.executable, "-c", ONLY_WHAT_IS_NEEDED + tries], capture_output=True, text=True, check=True
    )
    refused = [f"{call} [digital envelope routines] unsupported" for call in calls]
    assert told.stdout.splitlines() == refused


@pytest.mark.parametrize(
    ("before", "refused"),
    [("", "Python's hashlib refuses SHA-256"), nightly(PYTHONS_OWN_HASHES, "`cryptography` refuses AES-256")],
)
def test_fips_without_a_provider_is_refused(small_release, tmp_path, before, refused):
    out = tmp_path / "out"
    conf = settings(tmp_path, "default = base_sect")
    told = ran(before, "run", small_release, "--out", out, OPENSSL_CONF=conf)
    assert told.returncode == 7
    assert "error [algorithm-refused]" in told.stderr
    assert refused in told.stderr
    assert not out.exists()


def test_python_refuses_too(tmp_path):
    told = ran("import tallyveil; tallyveil.plan", OPENSSL_CONF=settings(tmp_path, "default = base_sect"))
    assert "SolverError: Python's hashlib refuses SHA-256" in told.stderr


def test_with_a_fips_provider(tmp_path):
    """The self-test passes where `cryptography` uses a real FIPS provider; OPENSSL_MODULES names its folder."""
    module = Path(os.environ.get("OPENSSL_MODULES", "")) / "fips.so"
    if not module.is_file():
        pytest.skip("needs the folder of OpenSSL's FIPS provider in OPENSSL_MODULES")
    installed = tmp_path / "fipsmodule.cnf"
    asked = [
        "openssl",
        "fipsinstall",
        "-module",
        str(module),
        "-out",
        str(installed),
        "-provider_name",
        "fips",
    ]
    subprocess.run(asked, capture_output=True, check=True)
    conf = settings(tmp_path, "fips = fips_sect", f".include {installed}")
    told = ran(PYTHONS_OWN_HASHES, "selftest", "--topdown", "--json", OPENSSL_CONF=conf)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["passed"] is True
