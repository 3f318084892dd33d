"""The parts of the archive for machines without a network that need no network themselves."""

import importlib.util
import os
import re
import sys
import sysconfig
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[2]
TOOL = PROJECT / "tools" / "bundle"


def part(name):
    """A module of the tool, which is a folder of programs and no package."""
    spec = importlib.util.spec_from_file_location(f"bundle_{name}", TOOL / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


archive, install, wheels = part("archive"), part("install"), part("wheels")


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


FILES = {"a.txt": "one", "wheels/b.whl": "two", "wheels/a.whl": "three", "docs/deep/c.md": "four"}


def test_an_archive_depends_on_names_and_contents_alone(tmp_path):
    first = write(tmp_path / "first" / "bundle", FILES)
    second = write(tmp_path / "second" / "bundle", dict(reversed(FILES.items())))
    for path in second.rglob("*"):
        path.chmod(0o700)
        os.utime(path, (1, 1))
    (second / "empty").mkdir()
    made = []
    for folder in (first, second):
        archive.pack(folder, folder.parent / "out.tar", 1_700_000_000)
        made.append((folder.parent / "out.tar").read_bytes())
    assert made[0] == made[1]
    (second / "a.txt").write_text("eno")
    archive.pack(second, tmp_path / "changed.tar", 1_700_000_000)
    assert (tmp_path / "changed.tar").read_bytes() != made[0]


@pytest.fixture
def summed(tmp_path):
    folder = write(tmp_path / "bundle", FILES)
    (folder / archive.CHECKSUMS).write_text(archive.checksums(folder))
    return folder


def test_checksums_hold(summed):
    install.require_checksums(summed)
    first = (summed / archive.CHECKSUMS).read_text().splitlines()[0]
    assert first == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed  a.txt"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "wheels/a.whl").write_text("eerht"), "wheels/a.whl was changed"),
        (lambda folder: (folder / "docs/deep/c.md").unlink(), "docs/deep/c.md is missing"),
        (lambda folder: (folder / "wheels/c.whl").write_text(""), "wheels/c.whl is not listed"),
    ],
)
def test_a_changed_bundle_is_not_installed(summed, change, said):
    change(summed)
    with pytest.raises(SystemExit, match=re.escape(said)):
        install.require_checksums(summed)


def test_another_machine_is_refused():
    here = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "platform": sysconfig.get_platform(),
    }
    install.require_machine(here)
    for name, other in (("python", "3.1"), ("platform", "plan9-mips")):
        with pytest.raises(SystemExit, match=f"for {name} {other}"):
            install.require_machine({**here, name: other})


def wheel(folder, metadata, files=()):
    path = folder / "Some_Name-1.0-py3-none-any.whl"
    with ZipFile(path, "w") as file:
        for name in files:
            file.writestr(name, name)
        file.writestr("some_name-1.0.dist-info/METADATA", f"Name: Some_Name\nVersion: 1.0\n{metadata}\n")
    return wheels.Wheel(path)


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        (
            "License-Expression: MIT OR Apache-2.0\nClassifier: License :: OSI Approved :: MIT License",
            "MIT OR Apache-2.0",
        ),
        (
            "License: whole text\n        of a licence\nClassifier: License :: OSI Approved :: ISC License",
            "ISC License",
        ),
        ("License: BSD", "BSD"),
        ("License: BSD 2-Clause License\n  \n  Copyright", "BSD 2-Clause License"),
        ("", ""),
    ],
)
def test_the_licence_that_a_wheel_states(tmp_path, metadata, licence):
    assert wheel(tmp_path, metadata).licence == licence


def test_the_files_of_a_wheel(tmp_path):
    info = "some_name-1.0.dist-info"
    files = [f"{info}/licenses/deep/MIT.txt", f"{info}/COPYING", "other/LICENSE", f"{info}/sboms/parts.json"]
    found = wheel(tmp_path, "", files)
    assert sorted(found.licence_files()) == [files[1], files[0]]
    assert list(found.stated_parts()) == [files[3]]
    assert list(wheel(tmp_path, "", ["other/LICENSE", "other/code.py"]).licence_files()) == ["other/LICENSE"]
    assert wheels.requirements([found]) == f"some-name==1.0 --hash=sha256:{found.sha256}\n"


def test_the_lock_file_fits_what_is_required():
    pinned = {}
    for name, version in re.findall(
        r"^([a-z0-9-]+)==(\S+)", (TOOL / "requirements.lock").read_text(), re.MULTILINE
    ):
        pinned.setdefault(name, []).append(version)
    for text in tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]:
        requirement = Requirement(text)
        versions = pinned[requirement.name]
        assert all(version in requirement.specifier for version in versions), f"{text}: run `make lock`"
