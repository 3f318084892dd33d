"""The example of docs/spine.md runs and prints what it says it prints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "spine.md"


@pytest.mark.nightly
def test_example_prints_what_its_comments_say():
    example = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL).group(1)
    said = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    promised = re.findall(r"^print\(.*\) +# (.*)$", example, re.MULTILINE)
    assert said == promised
    assert len(said) == 4
