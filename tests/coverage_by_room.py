"""What the tests reach, room by room: statements, branches, and lines of tests for each line of code.

    coverage run -m pytest tests/unit && python tests/coverage_by_room.py

A room is a folder of `src/tallyveil`. A line of code is one that holds neither a comment, nor a docstring, nor nothing.
The tests of a room are those in the folder of the same name in `tests/unit`; a test file elsewhere counts for the room
from which it imports most. Compiled kernels are traced by nothing, so that their room is left out of the first two.
The command fails if less than 95 % of the branches are reached in a room of the privacy core.
"""

import ast
import json
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src" / "tallyveil"
TESTS = PROJECT / "tests"
CORE = ("noise", "accounting", "confidential", "runs")
WANTED = 95.0
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(path: Path) -> int:
    """Lines that hold a token other than a comment or a docstring."""
    with path.open("rb") as file:
        tokens = [t for t in tokenize.tokenize(file.readline) if t.type not in SILENT | {tokenize.ENCODING}]
    held = {line for t in tokens for line in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            text = node.body[0]
            held -= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(held)


def room_of_test(path: Path) -> str | None:
    """The room that a test file is about."""
    parts = path.relative_to(TESTS).parts
    if parts[0] == "unit" and len(parts) > 2:
        return parts[1]
    rooms: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tallyveil."):
            rooms[(node.module or "").split(".")[1]] += len(node.names)
    return rooms.most_common(1)[0][0] if rooms else None


def measured() -> dict[str, Counter[str]]:
    """Statements and branches of every room, reached and in all, from the last run of coverage."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", path], check=True, cwd=PROJECT)
        files: dict[str, Any] = json.loads(path.read_text())["files"]
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for name, found in files.items():
        parts = (PROJECT / name).relative_to(SOURCE).parts
        if len(parts) > 1:
            rooms[parts[0]].update({k: v for k, v in found["summary"].items() if isinstance(v, int)})
    return rooms


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def main() -> None:
    """Print one line a room."""
    code, tests = Counter[str](), Counter[str]()
    for path in SOURCE.rglob("*.py"):
        if path.parent != SOURCE:
            code[path.relative_to(SOURCE).parts[0]] += lines_of_code(path)
    for path in TESTS.rglob("*.py"):
        tests[room_of_test(path) or "(none)"] += lines_of_code(path)
    rooms, short = measured(), []
    print(f"{'room':14} {'statements':>10} {'branches':>9} {'code':>7} {'tests':>7} {'tests a line':>12}")
    for room in sorted(code, key=lambda room: (room not in CORE, room)):
        found = rooms[room] if room != "kernels" else Counter[str]()
        reached, branches = found["covered_branches"], found["num_branches"]
        if room in CORE and branches and 100 * reached < WANTED * branches:
            short.append(room)
        print(
            f"{room:14} {share(found['covered_lines'], found['num_statements']):>10} {share(reached, branches):>9} "
            f"{code[room]:7} {tests[room]:7} {tests[room] / code[room]:12.2f}"
        )
    if short:
        sys.exit(f"less than {WANTED:.0f} % of the branches are reached in: {', '.join(short)}")


if __name__ == "__main__":
    main()
