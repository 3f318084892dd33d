"""`tallyveil warm-up` makes a small release and leaves nothing but compiled code, which it also removes."""

import json
import tempfile

import numba
from typer.testing import CliRunner

from tallyveil.cli import warm_up
from tallyveil.cli.main import app
from tallyveil.kernels.compiled import bytes_on_disk, kernels_folder


def test_a_release_is_made_in_a_folder_that_is_removed(tmp_path, monkeypatch):
    made = []

    def demo(out, blocks, quiet):
        (out / "release").mkdir()
        made.append((out, blocks, quiet))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(warm_up, "demo", demo)
    said = CliRunner().invoke(app, ["warm-up"])
    assert said.exit_code == 0
    assert "are compiled" in said.output
    ((folder, *how),) = made
    assert how == [warm_up.BLOCKS, True]
    assert folder.parent == tmp_path
    assert not folder.exists()
    assert CliRunner().invoke(app, ["warm-up", "--quiet"]).output == ""
    found = json.loads(CliRunner().invoke(app, ["warm-up", "--json"]).output)
    assert found == {"folder": str(kernels_folder()), "removed": False, "bytes": bytes_on_disk()}


def test_compiled_code_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    folder = tmp_path / "tallyveil" / "kernels"
    for flag, said in (
        ("--json", {"folder": str(folder), "removed": True, "bytes": 1_500_000}),
        ("--remove", f"Removed 1.5 MB of compiled kernels in {folder}."),
    ):
        (folder / "a module").mkdir(parents=True)
        (folder / "a module" / "kernel.1.nbc").write_bytes(bytes(1_500_000))
        output = CliRunner().invoke(app, ["warm-up", "--remove", flag]).output
        assert (json.loads(output) if flag == "--json" else " ".join(output.split())) == said
        assert not list(tmp_path.iterdir())
