"""The commands and the Python example of docs/safetab.md run as they stand, in order."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PROJECT = Path(__file__).parents[2]
GUIDE = PROJECT / "docs" / "safetab.md"


@pytest.mark.nightly
def test_the_guide_runs(tmp_path, fork_server):
    text = GUIDE.read_text()
    commands = re.search(r"```\n(tallyveil synth.*?)```", text, re.DOTALL).group(1).splitlines()
    assert len(commands) == 7
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    for line in commands:
        said = fork_server.run(line.removeprefix("tallyveil ").split(), tmp_path, 120)
        assert said["code"] == 0, line + "\n" + said["err"]
    for name in ("report.html", "t1/us.csv", "t2-us.parquet", "expected.json", "evaluation/report.html"):
        assert (tmp_path / "tables" / name).is_file()
    assert (tmp_path / "consistent" / "t1-us.parquet").is_file()
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    finished = example + "\nassert outcome.already_finished\n"
    subprocess.run([sys.executable, "-c", finished], cwd=tmp_path, check=True)
