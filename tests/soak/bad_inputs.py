"""Give every command bad inputs that a machine made up, and judge what it does with them.

    python tests/soak/bad_inputs.py --number 1000 --seed 1

Hypothesis draws every case from the seed: valid small inputs with things deleted, doubled, retyped, made huge, given
hostile names, nested, truncated or damaged byte by byte, and inputs that were never valid. Each case runs the command
line in a folder of its own. The following are findings, and the command ends with exit code 1 where there are any:

- a traceback, an internal error, an exit code that the documentation does not list, or the end by a signal;
- a command that runs for more than 10 seconds;
- anything written outside the folder that the command was told to write to;
- anything left behind by a command that refused, or a refusal after the budget was spent;
- a value or a count of a confidential record in what the command said or wrote;
- control characters that reach the terminal, and messages too long for anyone to read.

`--only N` runs the N-th case of a seed again, and `--keep DIR` writes the files of every case with a finding there.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import base_inputs as base
import mutations as mutate
import product_inputs as products
from command_lines import accounts, changed, wild
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from runner import CANARY, Case, Outcome, Runner

KINDS = ("release", "release", "release", "table", "table", "table", "subspace", "safetab", "safetab", "households",
         "spine", "finished", "finished", "interrupted", "account", "command", "command", "folder", "groups", "groups",
         "import", "calibrate", "measured", "published", "published")  # fmt: skip


@st.composite
def cases(draw: Callable[[Any], Any], scratch: Path) -> Case:
    """One bad input."""
    kind = draw(st.sampled_from(KINDS))
    if kind == "account":
        return Case(kind, draw(accounts()), {})
    if kind == "command":
        return draw(_command_line())
    if kind == "folder":
        return draw(_out_folder())
    made = {"finished": base.finished, "measured": products.measured, "published": products.published}
    if kind in made:
        return draw(_damaged(kind, made[kind](scratch)))
    if kind == "interrupted":
        return draw(_damaged(kind, base.interrupted(scratch, draw(st.integers(2, 25)))))
    folder = {
        "release": base.release,
        "table": base.release,
        "subspace": base.subspace,
        "safetab": lambda: base.safetab(scratch),
        "households": lambda: base.households(scratch),
        "spine": lambda: base.spine(scratch),
        "groups": products.groups,
        "import": lambda: products.imported(scratch),
        "calibrate": lambda: products.calibrated(scratch),
    }[kind]()
    return draw(_mutated(kind, folder))


@st.composite
def _mutated(draw: Callable[[Any], Any], kind: str, folder: base.Folder) -> Case:
    """Valid inputs with a changed document, table or file."""
    files = dict(folder.files)
    arguments = draw(st.sampled_from(folder.commands))
    ways = ["bytes"] if kind in ("safetab", "households") else []
    ways += ["tree", "tree", "bytes"] if kind not in ("table", "spine") and folder.documents else []
    ways += ["table", "table"] if folder.tables and kind != "release" else []
    way = draw(st.sampled_from(ways or ["bytes"]))
    if way == "tree":
        name = draw(st.sampled_from(folder.documents))
        content = files[name]
        assert content is not None
        tree, done = draw(mutate.trees(base.tree_of(name, content)))
        files[name] = mutate.toml_of(tree) if name.endswith(".toml") else mutate.json_of(tree)
    elif way == "table":
        name = draw(st.sampled_from(sorted(folder.tables)))
        content, suffix, done = draw(mutate.tables(folder.tables[name], name in folder.confidential))
        arguments = _put_table(files, arguments, name, content, suffix)
    else:
        name = draw(st.sampled_from(sorted(name for name, held in files.items() if held is not None)))
        content = files[name]
        assert content is not None
        if name in folder.confidential and draw(st.booleans()):
            content, headless = _with_canary(content, draw(st.booleans()))
            done = f"canary{headless}"
        else:
            content, done = draw(mutate.bytes_of(content))
        files[name] = content
    return Case(kind, arguments, files, writable=folder.writable, done=(f"{name}: {done}",))


def _put_table(
    files: dict[str, bytes | None], arguments: tuple[str, ...], name: str, content: bytes, suffix: str
) -> tuple[str, ...]:
    """Put a table in its place; under another suffix its name changes wherever it stands."""
    new = name.rpartition(".")[0] + suffix
    del files[name]
    for other, text in files.items():
        if other.endswith(".toml") and text is not None:
            files[other] = text.replace(name.encode(), new.encode())
    files[new] = content
    return tuple(new if word == name else word for word in arguments)


def _with_canary(content: bytes, keep_header: bool) -> tuple[bytes, str]:
    """A record in which a value stands that only the records know."""
    header, first, *rest = content.split(b"\n")
    mark = b"|" if b"|" in header else b","
    fields = first.split(mark)
    place = len(fields) // 2
    fields[place] = CANARY.encode() + b"-9"
    records = [mark.join(fields), *rest]
    return b"\n".join(
        [header, *records] if keep_header else records
    ), "" if keep_header else " in the first line"


@st.composite
def _command_line(draw: Callable[[Any], Any]) -> Case:
    """Valid files, and arguments that are not."""
    folder = draw(st.sampled_from((base.release(), base.subspace())))
    if draw(st.booleans()):
        arguments, done = draw(changed(draw(st.sampled_from(folder.commands))))
    else:
        arguments, done = draw(wild()), "wild"
    files = dict(folder.files) | {"full/mine.txt": b"keep me"}
    links = {"link": "full", "loop": "loop"}
    return Case("command", arguments, files, links, ("demo-release",), (done,))


@st.composite
def _out_folder(draw: Callable[[Any], Any]) -> Case:
    """Valid inputs, and a folder of the release that is not what it should be."""
    folder = draw(st.sampled_from((base.release(), base.subspace())))
    files, links = dict(folder.files), {}
    way = draw(
        st.sampled_from(
            ("file", "others", "link", "private link", "planted", "private file", "deep", "partial")
        )
    )
    if way == "file":
        files["out"] = b"mine"
    elif way == "others":
        files["out/thesis.txt"] = b"mine"
    elif way == "link":
        files["elsewhere"], links["out"] = (
            None,
            draw(st.sampled_from(("elsewhere", "nowhere", "out", "rec.csv"))),
        )
    elif way == "private link":
        files["elsewhere"], files["out"], links["out/private"] = None, None, "../elsewhere"
    elif way == "planted":
        files["out/private/run.json"] = draw(st.sampled_from((b"", b"{}", b"[]", b"\xff", b'{"key": "00"}')))
    elif way == "private file":
        files["out/private"] = b"mine"
    elif way == "deep":
        files["out/private/sub/x"] = b"mine"
    else:
        files["out/private/run.json.partial"] = b"mine"
    arguments = next(words for words in folder.commands if "--out" in words)
    return Case("folder", arguments, files, links, done=(way,))


@st.composite
def _damaged(draw: Callable[[Any], Any], kind: str, folder: base.Folder) -> Case:
    """A run's folder in which a file was removed, damaged or replaced."""
    files, links = dict(folder.files), {}
    arguments = draw(st.sampled_from(folder.commands))
    inside = sorted(
        name for name, content in files.items() if name.startswith("./out/") and content is not None
    )
    texts = [name for name in inside if name.endswith((".json", ".jsonl"))]
    name = draw(st.sampled_from(inside if draw(st.booleans()) else texts or inside))
    content = files[name]
    assert content is not None
    way = draw(st.sampled_from(("tree", "tree", "bytes", "bytes", "remove", "folder", "link")))
    if way == "tree" and name.endswith(".json") and content:
        tree, done = draw(mutate.trees(json.loads(content)))
        files[name] = mutate.json_of(tree)
    elif way == "remove":
        del files[name]
        done = way
    elif way == "folder":
        files[name], done = None, way
    elif way == "link":
        links[name], done = draw(st.sampled_from(("nowhere", "rec.csv", "@ARENA@/a"))), way
    else:
        files[name], done = draw(mutate.bytes_of(content))
    return Case(kind, arguments, files, links, folder.writable, (f"{name}: {done}",))


def drawn(first: int, place: int, scratch: Path) -> Case:
    """One case of a seed, by itself: hypothesis draws the cases of one test as variations of each other."""
    found: list[Case] = []

    @seed(first * 1_000_003 + place)
    @settings(
        max_examples=3,  # the first is always the simplest there is
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(scratch))
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found[-1]


def _keep(folder: Path, case: Case, outcome: Outcome) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content)
    said: dict[str, Any] = {
        "kind": case.kind,
        "done": case.done,
        "arguments": case.arguments,
        "links": case.links,
    }
    said |= {"code": outcome.code, "seconds": outcome.seconds, "findings": outcome.findings}
    (folder / "case.json").write_text(json.dumps(said | {"out": outcome.out, "err": outcome.err}, indent=1))


def main() -> int:
    """Run the cases; 1 where there are findings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--number", type=int, default=1000, help="How many cases.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", type=int, action="append", help="Run this case of the seed alone.")
    parser.add_argument("--kind", help="Run cases of this kind alone.")
    parser.add_argument("--seconds", type=float, default=10.0, help="Limit of one command.")
    parser.add_argument("--keep", type=Path, help="Write the cases with findings to this folder.")
    given_flags = parser.parse_args()
    started, ended, findings = time.monotonic(), Counter[str](), 0
    with tempfile.TemporaryDirectory() as temporary:
        runner = Runner(Path(temporary), seconds=given_flags.seconds)
        for place in given_flags.only or range(given_flags.number):
            case = drawn(given_flags.seed, place, Path(temporary) / "scratch")
            if given_flags.kind and case.kind != given_flags.kind:
                continue
            outcome = runner.run(case)
            ended[f"{case.kind}: exit code {outcome.code}"] += 1
            if given_flags.only:
                sys.stdout.write(f"{outcome.out}{outcome.err}")
            if outcome.findings or given_flags.only:
                findings += bool(outcome.findings)
                words = " ".join(word[:60] for word in case.arguments)
                sys.stdout.write(
                    f"{given_flags.seed}/{place} {case.kind} [{'; '.join(case.done)}] {words}\n".encode(
                        "ascii", "backslashreplace"
                    ).decode()
                )
                for finding in outcome.findings:
                    sys.stdout.write(f"    {finding}\n".encode("ascii", "backslashreplace").decode())
                sys.stdout.flush()
                if given_flags.keep:
                    _keep(given_flags.keep / f"{given_flags.seed}-{place}", case, outcome)
        runner.close()
    for line, number in sorted(ended.items()):
        sys.stdout.write(f"{number:6} {line}\n")
    seconds = time.monotonic() - started
    sys.stdout.write(
        f"seed {given_flags.seed}: {sum(ended.values())} cases, {findings} with findings, {seconds:.0f} s\n"
    )
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
