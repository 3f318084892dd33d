"""Random releases under random disturbances: each is the one of an undisturbed run, or refused with a known error.

    python tests/soak/releases.py --hours 6 --seed 1 --keep failures
    python tests/soak/releases.py --seed 1 --replay 17

Each trial draws a product and all its inputs (`random_products.py`, `random_releases.py`). It makes the release once by
threads without any disturbance, and holds every file to what it promises (`release_checks.py`). Then it makes the same
release in another folder, where something happens to it (`DISTURBANCES`): it is killed once or twice, two processes
race for it, a file of its unfinished folder is damaged, its disk is full, it is done by the worker processes of a Ray
cluster. At the end both folders must hold the same bytes, with one spend and no private folder. A finished folder that
was damaged must be refused by every command, or give what the whole folder gives. Every command must end with a
documented exit code, and its messages hold neither a traceback nor a count that only the records know.

Trials of one seed are always the same but for the moments of kills, which follow the clock. A trial with a fault leaves
its inputs, both folders and what was said in the folder of `--keep`. A soak that is killed by SIGKILL leaves the folder
of its last trial, `soak-releases-...`, in the folder for temporary files; one that is stopped otherwise leaves nothing.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "1"  # before polars is imported: forked runs are many
sys.path.append(str(Path(__file__).parents[2]))

from disturbances import DISTURBANCES, Stage, mount_alone
from fork_server import forked, prepare
from kills import contents, ended, spends
from random_products import Job, draw_job
from release_checks import folder_faults, published_counts, world_faults
from runner import CANARY_COUNTS
from tests.commands import exit_code, folder, length, refuse_another_package, whole

OFTEN = {"none": 8, "killed": 22, "killed twice": 10, "raced": 10, "damaged unfinished": 16, "damaged finished": 16,
         "disk full": 8, "file too large": 4, "ray": 3}  # fmt: skip
"""How often each disturbance is drawn."""
KNOWN = {("account", "budget"), ("intervals", "measurements-missing"),
         ("intervals", "table-undetermined")}  # fmt: skip
"""What is refused for a whole release, too: a total with a test key, and intervals without measurements."""
AFTER_THE_SPEND = {"subspace-negative", "family-unsolved", "constraint"}
"""Errors that only the drawn noise can lead to."""


class Trial:
    """One job, twice: undisturbed and disturbed."""

    def __init__(self, root: Path, seed: int, number: int) -> None:
        self.draw = random.Random(f"{seed}/{number}")
        self.root, self.name = root, f"{seed}-{number}"
        self.job: Job = draw_job(self.draw)
        self.kind = self._kind()
        self.faults: list[str] = []
        self.counted: Counter[str] = Counter()

    def _kind(self) -> str:
        names = list(OFTEN)
        kind = self.draw.choices(names, list(OFTEN.values()))[0]
        if kind == "ray" and not any(step.has_executor for step in self.job.steps):
            return "none"
        return kind

    def run(self) -> None:
        """Run the job in both folders, and judge it."""
        workers = str(self.draw.choice([1, 2]))
        whole = Stage(self.root / "whole", self.job, workers, self.faults, self.counted)
        if not whole.lay_out():
            return
        if any(whole.done(step) for step in self.job.steps):
            self._refused(whole)
            self._judge_shown(whole, [])
            return
        published = self._check(whole)
        trial = Stage(self.root / "trial", self.job, str(self.draw.choice([1, 2])), self.faults, self.counted)
        self._disturb(whole, trial)
        self._judge_shown(whole, published)
        self._judge_shown(trial, published)

    def _judge_shown(self, stage: Stage, published: Sequence[int]) -> None:
        """A count that stands out may be said only if the release publishes it, by chance."""
        for count, where in stage.shown.items():
            if count in published:
                self.counted["a published count that is the true one was said"] += 1
            else:
                self.faults += where

    def _disturb(self, whole: Stage, trial: Stage) -> None:
        """Make the release again, and let something happen to it."""
        trial.lay_out()
        trial.seconds = whole.seconds
        place = self.draw.randrange(len(self.job.steps))
        for number, step in enumerate(self.job.steps):
            if number == place and self.kind != "damaged finished":
                DISTURBANCES[self.kind](trial, step, self.draw)
            code = trial.done(step)
            if code:
                self.faults.append(
                    f"{step.command[0]} ended with {code} where an undisturbed run ends with 0"
                )
                return
            self._compare(whole.root / step.out, trial.root / step.out)
        self._read(trial)

    def _refused(self, whole: Stage) -> None:
        """A plan that the library refuses: with a known code, mostly before anything was spent."""
        said = whole.said[-1]
        self.counted[f"refused: {said.error}"] += 1
        if said.error in ("internal", ""):
            self.faults.append(f"an undisturbed run ended with {said.code}")
        if spends(whole.root):
            self.counted[f"refused after the spend: {said.error}"] += 1
            if said.error not in AFTER_THE_SPEND:
                self.faults.append(f"refused after the spend: {said.error}")

    def _check(self, whole: Stage) -> list[int]:
        """Hold the undisturbed folders to what they promise, in a process that may start threads.

        Returns:
            Which of the counts that stand out they publish.
        """
        found = self.root / "checked.json"

        def check() -> int:
            faults: list[str] = []
            covered: Counter[str] = Counter()
            published: list[int] = []
            for step in self.job.steps:
                faults += folder_faults(whole.root / step.out)
                published += published_counts(whole.root / step.out, CANARY_COUNTS)
            if self.job.world is not None and (whole.root / "out" / "histogram").is_dir():
                more, covered = world_faults(
                    whole.root / "out", self.job.world, self.job.files["release.toml"]
                )
                faults += more
            found.write_text(json.dumps([faults, covered, published]))
            return 0

        with (self.root / "check").open("w+b") as said:
            if ended(forked(check, said.fileno(), said.fileno())):
                said.seek(0)
                self.faults.append(f"the checks failed: {said.read().decode()[-2000:]}")
                return []
        faults, covered, published = json.loads(found.read_text())
        self.faults += faults
        self.counted.update(covered)
        return published

    def _compare(self, whole: Path, trial: Path) -> None:
        wanted, found = contents(whole), contents(trial)
        # The page shows how long the stages took.
        differing = sorted(
            path
            for path in wanted.keys() | found.keys()
            if wanted.get(path) != found.get(path) and not path.endswith("report.html")
        )
        if differing:
            self.faults.append(f"other bytes than an undisturbed run: {', '.join(differing[:5])}")
        if spends(whole) != spends(trial):
            self.faults.append(f"{spends(trial)} spends instead of {spends(whole)}")
        left = [path.name for path in trial.rglob("*") if path.name == "private" or path.suffix == ".partial"]
        if left:
            self.faults.append(f"left behind: {', '.join(left)}")

    def _read(self, trial: Stage) -> None:
        """Give the commands that read the folder; in a damaged one they refuse, or make what they made before."""
        wanted = [trial.read(*one) for one in self.job.after]
        for said, (command, _) in zip(wanted, self.job.after, strict=True):
            if said.code and (command[0], said.error) not in KNOWN:
                self.faults.append(f"{' '.join(command)} refuses a whole release: {said.text[-600:]}")
        if self.kind != "damaged finished":
            return
        damaged, how = trial.damage_finished(self.draw)
        code = trial.done(self.job.steps[-1])
        self.counted[f"damaged, given again: {trial.said[-1].error or code}"] += 1
        for before, (command, out) in zip(wanted, self.job.after, strict=True):
            found = trial.read(command, out)
            if found.code:
                self.counted[f"damaged, refused by {command[0]}: {found.error}"] += 1
            elif '"lacking": "' in found.text and '"lacking": "' not in before.text:
                self.counted[f"damaged, {command[0]} says what is lacking"] += 1
            elif (found.code, _beside(damaged, found.made)) != (before.code, _beside(damaged, before.made)):
                self.faults.append(f"{' '.join(command)} gives something else after {damaged} {how}")


def _beside(damaged: str, made: object) -> object:
    """What a command has made. Where this is the release folder, the damaged file is no part of it.

    Neither are the two lists of files: `datapackage.json` has no columns for a file that cannot be read.
    """
    besides = {damaged, "datapackage.json", "manifest.json"}
    return {path: made[path] for path in made if path not in besides} if isinstance(made, dict) else made


def main() -> int:
    """Run the trials; 0 where there is no fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=length(), default=1.0)
    parser.add_argument("--number", type=whole(1), help="this many trials, however long they take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=whole(0), action="append", help="the trial of this number alone")
    parser.add_argument("--first", type=whole(0), default=0, help="number of the first trial")
    parser.add_argument("--keep", type=folder, default="soak-failures", help="folder of trials with faults")
    chosen = parser.parse_args()
    refuse_another_package()
    mount_alone()
    prepare()
    begun, counted, failed = time.monotonic(), Counter[str](), 0
    for number in chosen.replay or range(chosen.first, chosen.first + (chosen.number or 10**9)):
        late = time.monotonic() - begun > 3600 * chosen.hours
        if late and counted["trials"] and not chosen.replay and not chosen.number:
            break
        with tempfile.TemporaryDirectory(prefix="soak-releases-") as root:
            trial = Trial(Path(root), chosen.seed, number)
            trial.run()
            counted["trials"] += 1
            counted[f"trials of {trial.job.product}, {trial.kind}"] += 1
            counted.update(trial.counted)
            if trial.faults:
                failed += 1
                _keep(chosen.keep / trial.name, trial)
        if number % 20 == 19:
            print(
                f"{time.monotonic() - begun:.0f} s, {counted['trials']} trials, {failed} with faults",
                flush=True,
            )
    for line, times in sorted(counted.items()):
        print(f"{times:7} {line}")
    print(
        f"seed {chosen.seed}, {time.monotonic() - begun:.0f} s: {counted['trials']} trials, {failed} with faults"
    )
    return int(failed > 0)


def _keep(into: Path, trial: Trial) -> None:
    """Keep everything of a trial with faults, and say what they are."""
    print(f"FAULT {trial.name}, {trial.job.product}, {trial.kind}, {', '.join(trial.job.drawn)}", flush=True)
    for fault in trial.faults:
        print(f"    {fault[:600]}", flush=True)
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(trial.root, into, symlinks=True)
    (into / "faults.txt").write_text("\n".join(trial.faults) + "\n")


if __name__ == "__main__":
    sys.exit(exit_code(main))
