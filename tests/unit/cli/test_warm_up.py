"""`tallyveil warm-up` makes a small release and leaves nothing but compiled code."""

import tempfile

from typer.testing import CliRunner

from tallyveil.cli import warm_up
from tallyveil.cli.main import app


def test_a_release_is_made_in_a_folder_that_is_removed(tmp_path, monkeypatch):
    made = []

    def demo(out, blocks, quiet):
        (out / "release").mkdir()
        made.append((out.parent, blocks, quiet))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(warm_up, "demo", demo)
    said = CliRunner().invoke(app, ["warm-up"])
    assert said.exit_code == 0
    assert "are compiled" in said.output
    assert made == [(tmp_path, warm_up.BLOCKS, True)]
    assert not list(tmp_path.iterdir())
    assert CliRunner().invoke(app, ["warm-up", "--quiet"]).output == ""
