"""External audits of what the package claims, and of what the auditors would catch.

    python -m tests.auditors.run [--number N] [--releases N] [--groups ...] [--out FOLDER]
    python -m tests.auditors.run --power [--faults NAME ...] [--number N] [--releases N] [--groups ...] [--out FOLDER]

Outputs are drawn by the package and written to files. Auditors read the files, each in an environment of its own that
does not have the package (`environments.py`). Keys and seeds are fixed, so that two runs on one machine find the same.
The exit status is 1 if a claim is refuted; with `--power`, if a fault is refuted by nobody that is not listed among the
unseen ones (`power.py`). It is 2 if something could not be audited. All findings are also written to
FOLDER/findings.jsonl, or to FOLDER/power.jsonl.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.auditors.drawing.groups_of_outputs import GROUPS, RELEASES
from tests.auditors.environments import python_of
from tests.auditors.findings import LEVEL, MOST_TESTS, Found, refuse_gaps
from tests.auditors.power import FAULTS, RUNGS, UNSEEN
from tests.commands import PROJECT, NotCheckedError, alone, digest_of, exit_code, folder, whole
from tests.seeded.run import Bug, read_bugs, scratch_copy

PEERS: Final = {
    "jax-privacy": "tests/auditors/with_jax_privacy.py",
    "privacy-estimates": "tests/auditors/with_privacy_estimates.py",
}
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
"""Libraries start no threads of their own, which would only wait for each other."""

LEAST: Final = 20
"""Outputs on each side, without which auditors cannot learn, choose and judge."""
ABOUT: Final = "drawn.json"
"""File with what the outputs of a folder were drawn from."""


def main() -> int:
    """Audit, or show the power of the audits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=whole(LEAST), default=200_000, help="outputs on each side")
    parser.add_argument(
        "--releases",
        type=whole(0),
        default=300,
        help="whole releases on each side; 0, with --power, makes none",
    )
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--power", action="store_true", help="audit copies with a seeded fault")
    parser.add_argument("--faults", nargs="+", choices=sorted(FAULTS), default=sorted(FAULTS))
    parser.add_argument(
        "--out",
        type=folder,
        help="keep outputs and findings here; outputs of the same sources and sizes are not drawn again",
    )
    asked = parser.parse_args()
    if asked.power and not asked.releases:
        asked.groups = [group for group in asked.groups if group not in RELEASES]
    if asked.releases < LEAST and {*asked.groups} & {*RELEASES}:
        parser.error(f"--releases {asked.releases}: wanted at least {LEAST}, or 0 with --power")
    if asked.power and (without := [name for name in asked.faults if not {*FAULTS[name]} & {*asked.groups}]):
        parser.error(
            f"--groups: none of these groups shows {', '.join(without)}; name the others by --faults"
        )
    with tempfile.TemporaryDirectory() as scratch:
        out = asked.out or Path(scratch) / "audits"
        with alone(out, "audits"):
            if asked.power:
                return _show_power(asked.faults, asked.groups, asked.number, asked.releases, out)
            for group in asked.groups:
                _draw(PROJECT, out / group, group, asked.number, asked.releases)
            findings = _audited([out / group for group in asked.groups])
            (out / "findings.jsonl").write_text("".join(json.dumps(one) + "\n" for one in findings))
    if len(findings) > MOST_TESTS:
        raise NotCheckedError(f"{len(findings)} tests share a level meant for {MOST_TESTS}; raise MOST_TESTS")
    print(*_table(findings), sep="\n")
    refuted = [one for one in findings if one["refuted"]]
    print(f"{len(findings)} tests, {len(refuted)} claims refuted")
    return 1 if refuted else 0


def _draw(project: Path, into: Path, group: str, number: int, releases: int) -> str:
    """Draw a group from a copy of the package; returns the error with which a faulty copy ends, or nothing.

    Raises:
        NotCheckedError: The project itself ends with an error, or the folder holds something else.
    """
    sources = digest_of([project / "src", Path(__file__).with_name("drawing")])
    about = {"number": number, "releases": releases, "sources": sources}
    if into.exists():
        return _error_of(into, about)
    own = {"PYTHONPATH": str(project / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    sizes = ["--number", str(number), "--releases", str(releases), "--groups", group]
    module = "tests.auditors.drawing.command"
    half = into.with_name(into.name + ".half")
    if half.exists():
        _refuse_what_is_not_ours(half)
        shutil.rmtree(half)
    half.mkdir(parents=True)
    (half / ABOUT).write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", module, str(half), str(project / "src"), *sizes],
        cwd=PROJECT,
        env={**os.environ, **ONE_THREAD, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and project == PROJECT:
        raise NotCheckedError(f"drawing {group} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    if done.returncode == 2:
        raise NotCheckedError(f"{group} could not be drawn from a copy:\n{done.stderr[-2000:]}")
    said = (line for line in reversed(done.stderr.splitlines()) if "Error: " in line)
    error = next(said, f"exit code {done.returncode}")[:100] if done.returncode else ""
    (half / ABOUT).write_text(json.dumps({**about, "error": error}))
    half.rename(into)  # what was drawn before an error is audited
    return error


def _error_of(into: Path, about: Found) -> str:
    """The error with which the drawing of earlier outputs ended, or nothing.

    Raises:
        NotCheckedError: They were drawn from other sources, or in other numbers, or they are no outputs.
    """
    _refuse_what_is_not_ours(into)
    earlier = json.loads((into / ABOUT).read_text())
    error = str(earlier.pop("error"))
    if earlier != about:
        raise NotCheckedError(
            f"{into} holds outputs of other sources or numbers ({earlier['number']:,} outputs, {earlier['releases']:,} "
            f"releases); remove it, or name another folder by --out"
        )
    return error


def _refuse_what_is_not_ours(folder: Path) -> None:
    if not (folder / ABOUT).is_file():
        raise NotCheckedError(f"{folder} holds no outputs of this command; name another folder by --out")


def _audited(drawn: Iterable[Path], rungs: Sequence[int] = ()) -> list[Found]:
    """The findings of every auditor on some folders of outputs."""
    found: list[Found] = []
    for one in drawn:
        steps = ["--rungs", *map(str, rungs)] if rungs else []
        own = _findings([python_of("own"), "-m", "tests.auditors.audit", str(one), *steps])
        for name, script in PEERS.items():
            own += _findings([python_of(name), script, str(one), str(LEVEL)])
        refuse_gaps(own, one)
        found += own
    return found


def _findings(command: list[str]) -> list[Found]:
    environment = {**os.environ, **ONE_THREAD, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""}
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise NotCheckedError(
            f"an auditor ended with {done.returncode}; its reason is above: {' '.join(command)}"
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _table(findings: Sequence[Found]) -> list[str]:
    """The findings as rows of a table."""
    names = ("target", "auditor", "what", "claimed", "found", "outputs", "s", "note")
    rows = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for one in sorted(findings, key=lambda f: (f["target"], f["auditor"], f["quantity"])):
        mark = " REFUTED" if one["refuted"] else ""
        rows.append(
            f"| {one['target']} | {one['auditor']} | {one['quantity']} | {one['claimed']:.4g} "
            f"| {one['found']:.4g}{mark} | {one['samples']:,} | {one['seconds']:.1f} | {one['note']} |"
        )
    return rows


def _show_power(faults: Sequence[str], groups: Sequence[str], number: int, releases: int, out: Path) -> int:
    """Audit a copy with each fault in turn, and print who refutes with how many outputs."""
    bugs = {bug.name: bug for bug in read_bugs()}
    everything: list[Found] = []
    missed = []
    print("| fault | refuted by, with the fewest outputs | not refuted by |", "|---|---|---|", sep="\n")
    for fault in faults:
        findings, refusals = _with_fault(bugs[fault], groups, number, releases, out / fault)
        everything += [{"fault": fault, **one} for one in findings]
        by, not_by = _who(findings)
        said = "; ".join([*by, *refusals]) or "nobody"
        print(f"| {fault} | {said} | {', '.join(not_by)} |", flush=True)
        missed += [] if by or refusals else [fault]
    (out / "power.jsonl").write_text("".join(json.dumps(one) + "\n" for one in everything))
    print(f"{len(faults) - len(missed)} of {len(faults)} faults refuted")
    return 1 if set(missed) - set(UNSEEN) else 0


def _with_fault(
    bug: Bug, groups: Sequence[str], number: int, releases: int, out: Path
) -> tuple[list[Found], list[str]]:
    """Findings on a copy with the fault, and refusals of the copy itself.

    Raises:
        NotCheckedError: The project ends with an error where the copy does, so that the fault need not be the reason.
    """
    drawn = []
    refusals = []
    with tempfile.TemporaryDirectory() as scratch:
        project = scratch_copy(Path(scratch))
        bug.apply(project)
        for group in FAULTS[bug.name]:
            if group not in groups:
                continue
            error = _draw(project, out / group, group, number, releases)
            if error:
                _draw(PROJECT, out.parent / "without a fault" / group, group, number, releases)
                refusals.append(f"{group}: the copy ends with an error ({error})")
            if not error or list((out / group).glob("*.npz")):
                drawn.append(out / group)
    return _audited(drawn, RUNGS), refusals


def _who(findings: Sequence[Found]) -> tuple[list[str], list[str]]:
    """For each auditor that refutes a claim, the fewest outputs it took; and the others."""
    fewest: dict[str, Found] = {}
    for one in findings:
        known = fewest.get(one["auditor"])
        if one["refuted"] and (known is None or one["samples"] < known["samples"]):
            fewest[one["auditor"]] = one
    by = [f"{name} ({one['samples']:,}, {one['target']})" for name, one in sorted(fewest.items())]
    return by, sorted({one["auditor"] for one in findings} - set(fewest))


if __name__ == "__main__":
    sys.exit(exit_code(main))
