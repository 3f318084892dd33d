"""Which tests are run for a change: all that can notice it."""

from pathlib import Path

import pytest
from tests.changed import ROOT, changed_files, concerned


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("path", "noticing"),
    [
        ("src/tallyveil/kernels/tiles/solver.py", "tests/unit/kernels/tiles/test_tables.py"),
        ("src/tallyveil/kernels/tiles/solver.py", "tests/system/test_release.py"),
        ("src/tallyveil/accounting/renyi.py", "tests/golden/test_accounting_values.py"),
        ("src/tallyveil/cli/account.py", "tests/unit/cli/test_account.py"),
        ("src/tallyveil_studies/exhibit.py", "tests/unit/studies/test_safetab.py"),
        ("src/tallyveil/report/templates/page.html.j2", "tests/unit/report/test_style.py"),
        ("tests/outer_worlds.py", "tests/unit/postprocess/passes/test_families.py"),
        ("tests/windows.py", "tests/unit/storage/test_system.py"),
        ("tests/unit/test_exact.py", "tests/unit/test_exact.py"),
        ("README.md", "tests/architecture"),
    ],
)
def test_what_can_notice_a_change_is_run(path: str, noticing: str) -> None:
    assert (ROOT / noticing).exists()
    assert noticing in concerned({path})


@pytest.mark.nightly
def test_what_cannot_notice_it_is_not() -> None:
    for path in ("src/tallyveil/kernels/tiles/solver.py", "src/tallyveil/report/page.py"):
        assert "tests/unit/storage/test_read.py" not in concerned({path})
    assert concerned(set()) == []


@pytest.mark.parametrize("path", ["pyproject.toml", "tests/conftest.py"])
def test_what_concerns_every_test(path: str) -> None:
    every = {test.relative_to(ROOT).as_posix() for test in Path(ROOT / "tests").rglob("test_*.py")}
    assert set(concerned({path})) == every


def test_a_file_that_git_does_not_know_yet_is_a_change() -> None:
    new = ROOT / "tests" / "nobody_knows_this.py"
    new.touch()
    try:
        assert "tests/nobody_knows_this.py" in changed_files("HEAD")
    finally:
        new.unlink()
