"""Random kills: whatever happens to a run, its release is the one of an undisturbed run, for one spend.

    python tests/soak/kills.py --number 1000 --seed 1
    python tests/soak/kills.py --number 50 --product "programme of the DHC" --product "publish dhc"

Small runs of all products are killed (SIGKILL) at random moments and taken up again. In a tenth of the trials two
processes race for the folder. Before a tenth of the resumes something in the run folder is damaged at random; damage
that cannot be mended must end in an error of its own, spend nothing, and leave the run able to go on once the file is
restored. At the end the outputs must be, byte for byte, those of an undisturbed run, with one spend in the ledger, no
private folder and no half-written file. Commands that read public files alone (`publish`, `geography import` and
`safetab general-form`) are killed, raced and repeated in the same way, and spend nothing. `measurements import` reads
public files alone, too; its ledger shows the one spend of the publisher.

Processes are forked from one that has compiled everything and started no thread: so a run takes half a second.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "1"  # before polars is imported: forked runs are many

from fork_server import forked, prepare
from loading import module_of

from tallyveil.api.beginning import write_country
from tallyveil.errors import TallyveilError
from tallyveil.geography.census import Sources, import_geography, write_imported
from tallyveil.measurements.layouts.layout import Layout
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.descriptions import descriptions_named
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.exchange.exported import export_measurements
from tallyveil.postprocess.exchange.imported import import_measurements, open_published
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.dhc.public.from_toml import load_programme
from tallyveil.products.dhc.run.run import ProgrammeSettings, run_programme
from tallyveil.products.dhc.tables.publication import publish_dhc
from tallyveil.products.lattice.public.from_toml import load_subspace_plan
from tallyveil.products.lattice.run.run import run_subspace
from tallyveil.products.safetab.public.from_toml import load_group_plan
from tallyveil.products.safetab.public.general_form import write_general_form
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.regions import read_regions
from tallyveil.products.safetab.run.groups import run_groups
from tallyveil.products.safetab.run.households import run_households
from tallyveil.products.safetab.run.run import run_safetab
from tallyveil.products.topdown.pl94.publication import publish_pl94
from tallyveil.products.topdown.run.run import measure_release, run_release
from tallyveil.runs.folder import RunFolder
from tallyveil.runs.observer import SilentObserver
from tallyveil.storage.outputs import own_folder

TESTS = Path(__file__).parents[1]
STAYS = TESTS.parent / "examples" / "hospital_stays"
KEY = insecure_key("soak")
LOCKED = "folder-locked"
TAKEN = "folder-taken"
"""How `publish pl94` ends in a folder that it has finished."""
DHC = {
    "programme of the DHC": {},
    "agreeing programme of the DHC": {"agree": True},
    "programme of the DHC with sizes": {"agree": True, "sizes": "block"},
}
"""Programmes of the DHC that are killed, and how their inputs are made."""
LONG = {*DHC, "publish dhc"}
"""Products whose runs or inputs take many seconds. They are killed only where they are named."""
UNMENDABLE = ("run.json", "ledger.jsonl", "lock")
TABLE = """
[release]
name = "soak"
[table]
path = "table.csv"
count = "n"
[[attributes]]
name = "a"
levels = ["x", "y", "z"]
[[attributes]]
name = "b"
levels = ["u", "v", "w"]
[[constraints]]
name = "rows"
margin = ["a"]
[privacy]
epsilon = "1"
[mechanism]
law = "laplace"
norm = "l1"
epsilon = "0.25"
distance = "4"
"""
SUBSPACE = '[[subspace]]\nquery = "total"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]'


def write_inputs(root: Path, wanted: Collection[str]) -> None:
    """The small inputs of every product; those that take seconds only where they are wanted."""
    for name, flags in DHC.items():
        if name in wanted or (name == "programme of the DHC" and "publish dhc" in wanted):
            write_country(
                root / name, blocks=40, schema="dhc", people=600, seed=5, **flags
            )  # with group quarters
    if "publish dhc" in wanted:
        make_programme(root / "programme of the DHC", root / "published-dhc", workers=1)
    small = module_of(TESTS / "conftest.py")
    text = small.SMALL_RELEASE.replace("[[bounds]]", SUBSPACE)
    text = text.replace('"discrete_gaussian"\nrho = "2"', '"discrete_gaussian"\nrho = "9/4"')
    small.write_small_inputs(root / "full", text)
    support = text.replace("[outputs]", '[outputs]\nmeasurements = "support"')
    small.write_small_inputs(root / "support", support)
    # Counts drawn on a lattice rule the values of the tree out.
    small.write_small_inputs(root / "tree")
    write_programme(small.write_small_inputs(root / "programme"))
    toy = module_of(TESTS / "toy_country.py")
    # With level 1 of two geographies alone a run has the same files and stages, and takes a fifth of the time.
    unused = {(level, geography) for level in (1, 2) for geography in toy.US}
    unused -= {(1, "USA"), (1, "STATE")}
    no_budget = {f"privacy_budget_p_level_{level}_{geography.lower()}": 0 for level, geography in unused}
    toy.write_params(root / "safetab" / "p", run_pr=False, **no_budget)
    toy.write_data(root / "safetab" / "d", toy.person_rows(300))
    homes = module_of(TESTS / "system" / "test_safetab_households.py")
    homes.write_inputs(root / "homes", 200, run_pr=False)
    module_of(STAYS / "make_stays.py").write_stays(root / "stays.csv", 500)
    import product_inputs  # not before the fork: it starts what reads and writes tables

    if "publish" in wanted:
        product_inputs.published(root)
    if "import" in wanted:
        product_inputs.imported(root)
    if "measurements import" in wanted:
        write_noisy_files(root / "noisy")
    (root / "table").mkdir()
    (root / "table" / "table.toml").write_text(TABLE)
    rows = [f"{a},{b},{30 + 7 * i + 3 * j}" for i, a in enumerate("xyz") for j, b in enumerate("uvw")]
    (root / "table" / "table.csv").write_text("a,b,n\n" + "\n".join(rows) + "\n")


def write_programme(release: Path) -> None:
    """A second release beside a small one, which agrees with it; and the programme of both."""
    agreement = '[[agreement]]\nname = "first"\nquery = "home"\ntheirs = "home"\n'
    (release.parent / "second.toml").write_text(release.read_text() + agreement)
    tables = [
        f'[[releases]]\nname = "{name}"\nfile = "{file}"\n'
        for name, file in (("first", release.name), ("second", "second.toml"))
    ]
    (release.parent / "programme.toml").write_text('[programme]\nname = "soak"\n' + "".join(tables))


def write_noisy_files(root: Path) -> None:
    """Noisy measurements of housing units in the layout of 2020, to be imported."""
    write_country(root / "country", blocks=40, states=2, schema="pl94-units")
    plan = load_plan(root / "country" / "release.toml")
    measured = open_measurements(measure_release(plan, root / "measured", test_key=KEY).path)
    export_measurements(measured, root / "files", Layout.CENSUS_2020)


def products(root: Path) -> dict[str, Callable[[Path], object]]:
    """What is run, by name."""
    safetab, homes = root / "safetab", root / "homes"
    persons, units = [root / "published" / "out" / name for name in ("persons", "units")]
    dhc = [root / "published-dhc" / name for name in ("dhc-persons", "dhc-units")]
    census = Sources((root / "census" / "baf44",), (), root / "census" / "facilities.txt", None, ())
    return {
        "topdown": lambda out: run_release(
            load_plan(root / "full" / "release.toml"), out, test_key=KEY, workers=1
        ),
        "topdown, support": lambda out: run_release(
            load_plan(root / "support" / "release.toml"), out, test_key=KEY, workers=1
        ),
        "topdown, values of the tree": lambda out: run_release(
            load_plan(root / "tree" / "release.toml"), out, test_key=KEY, workers=2
        ),
        "safetab": lambda out: run_safetab(safetab / "p", safetab / "d", out, test_key=KEY),
        "safetab-h": lambda out: run_households(homes / "p", homes / "d", out, test_key=KEY),
        "safetab, any records": lambda out: run_groups(
            load_group_plan(STAYS / "stays.toml"), root / "stays.csv", out, test_key=KEY
        ),
        "subspace": lambda out: run_subspace(
            load_subspace_plan(root / "table" / "table.toml"), out, draws=3, test_key=KEY
        ),
        "publish": lambda out: publish_pl94(persons, units, out, csv=True),
        "import": lambda out: write_imported(import_geography(census), out),
        "measurements import": lambda out: import_measurements(
            open_published(root / "noisy" / "files", descriptions_named(Layout.CENSUS_2020.value)), out
        ),
        "general form": lambda out: write_form(safetab, out),
        "programme": lambda out: make_programme(root / "programme", out, workers=1),
        **{name: partial(_programme_of_dhc, root / name) for name in DHC},
        "publish dhc": lambda out: publish_dhc(dhc, out, tables=["P12", "H4"], microdata=True),
    }


def make_programme(inputs: Path, out: Path, workers: int) -> object:
    """Make all releases of a programme."""
    settings = ProgrammeSettings(KEY, SilentObserver(), workers, lambda _name, _outcome: None)
    return run_programme(load_programme(inputs / "programme.toml", out), out, settings)


def _programme_of_dhc(inputs: Path, out: Path) -> object:
    """Make the releases of a programme of the DHC on two threads."""
    return make_programme(inputs, out, workers=2)


def write_form(safetab: Path, out: Path) -> None:
    """The Census layout as a file of population groups, as the command line writes it."""
    plan = read_plan(safetab / "p")
    regions = read_regions(safetab / "d", plan.config)
    with own_folder(out, "safetab general-form"):
        write_general_form(plan, regions, out)


def contents(out: Path) -> dict[str, str]:
    """SHA-256 of every file of a release."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def spends(out: Path) -> int:
    """How many spends the ledgers show, which are several in a programme; what is no whole line does not count."""
    ledgers = [path for path in out.rglob("ledger.jsonl") if path.is_file()]
    return sum(b'"kind":"spend"' in line for path in ledgers for line in path.read_bytes().split(b"\n")[:-1])


def started(work: Callable[[], object], said: Path) -> int:
    """Start some work in a process of its own; what it says goes to a file."""
    with said.open("wb") as stream:
        return forked(lambda: _code_of(work), stream.fileno(), stream.fileno())


def _code_of(work: Callable[[], object]) -> int:
    """Do some work; its exit code, as the command line would end."""
    try:
        work()
    except TallyveilError as error:
        sys.stderr.write(f"error [{error.code}] {error}")
        return error.exit_code
    return 0


def ended(process: int) -> int:
    """Exit code of a process; below 0 for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@dataclass
class Trials:
    """One lane of trials, one after the other."""

    root: Path
    lane: int
    seed: int
    kills: int
    seconds: dict[str, float]
    wanted: dict[str, dict[str, str]]
    spent: dict[str, int]
    counted: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Trials until enough kills have landed."""
        choose = random.Random(self.seed * 1000 + self.lane)
        number = 0
        while self.counted["kills"] < self.kills and len(self.faults) < 5:
            number += 1
            name = choose.choice(sorted(self.wanted))
            out = self.root / f"lane-{self.lane}" / f"trial-{number}"
            before = len(self.faults)
            self._trial(name, out, choose)
            self.counted["trials"] += 1
            self.counted[f"trials of {name}"] += 1
            if len(self.faults) == before:
                shutil.rmtree(out)

    def _trial(self, name: str, out: Path, choose: random.Random) -> None:
        racing = choose.random() < 0.1
        self.counted["races"] += racing
        for attempt in range(choose.choice([1, 2, 3])):
            if attempt:
                self._resume_damaged(name, out, choose)
            self._killed(name, out, choose, racing=racing)
        self._resume_damaged(name, out, choose)
        if racing:
            choose.choice([self._race, *([self._stopped_before_the_lock] if self.spent[name] else [])])(
                name, out
            )
        code, said = self._whole(name, out)
        if code and TAKEN not in said:  # what is taken must be what is wanted
            self._fault(name, out, f"the last run ended with {code}: {said}")
            return
        found = contents(out)
        wanted = self.wanted[name]
        differing = sorted(p for p in wanted.keys() | found.keys() if wanted.get(p) != found.get(p))
        if differing or spends(out) != self.spent[name] or (out / "private").exists():
            self._fault(
                name,
                out,
                f"differs in {differing}, {spends(out)} spends, {sorted(path.name for path in out.iterdir())}",
            )

    def _start(self, name: str, out: Path, number: int = 0) -> tuple[int, Path]:
        said = self.root / f"lane-{self.lane}" / f"said-{number}"
        said.parent.mkdir(exist_ok=True)
        return started(lambda: products(self.root)[name](out), said), said

    def _whole(self, name: str, out: Path) -> tuple[int, str]:
        process, said = self._start(name, out)
        return ended(process), said.read_text()

    def _killed(self, name: str, out: Path, choose: random.Random, *, racing: bool) -> None:
        """One process, or two that race, killed at moments of their own."""
        processes = [self._start(name, out, number) for number in range(1 + racing)]
        begun = time.monotonic()
        moments = sorted(choose.uniform(0, 1.05 * (1 + racing) * self.seconds[name]) for _ in processes)
        for (process, _), moment in zip(choose.sample(processes, len(processes)), moments, strict=True):
            time.sleep(max(0.0, begun + moment - time.monotonic()))
            os.kill(process, signal.SIGKILL)
        for process, said in processes:
            code = ended(process)
            self.counted["kills"] += code == -signal.SIGKILL
            if code > 0 and LOCKED not in said.read_text() and TAKEN not in said.read_text():
                self._fault(name, out, f"a killed run ended with {code}: {said.read_text()}")

    def _stopped_before_the_lock(self, name: str, out: Path) -> None:
        """A process that looked at the folder, and goes on when another has finished the release."""

        def second() -> None:
            RunFolder._claim = stopping(RunFolder._claim)
            products(self.root)[name](out)

        said = self.root / f"lane-{self.lane}" / "said-stopped"
        process = started(second, said)
        _, status = os.waitpid(process, os.WUNTRACED)
        code, words = self._whole(name, out)
        found = contents(out) if code == 0 else {}
        if os.WIFSTOPPED(status):
            os.kill(process, signal.SIGCONT)
            status = os.waitpid(process, 0)[1]
        after = os.waitstatus_to_exitcode(status)
        if code or after or contents(out) != found or spends(out) != self.spent[name]:
            self._fault(
                name, out, f"stopped before the lock: {code} {words}, then {after} {said.read_text()}"
            )

    def _race(self, name: str, out: Path) -> None:
        """Two processes to the end: each finishes, or finds the folder held."""
        processes = [self._start(name, out, number) for number in (0, 1)]
        ends = [(ended(process), said.read_text()) for process, said in processes]
        refused = [code for code, said in ends if code and LOCKED not in said and TAKEN not in said]
        if refused or all(code and TAKEN not in said for code, said in ends):
            self._fault(name, out, f"two processes ended with {ends}")

    def _resume_damaged(self, name: str, out: Path, choose: random.Random) -> None:
        """In a tenth of the resumes: damage something, and see that the run mends it or refuses to go on."""
        resumable = (out / "private").is_dir() and not (out / "manifest.json").exists()
        if choose.random() >= 0.1 or not resumable:
            return
        paths = sorted(path for path in out.rglob("*") if path.is_file())
        if not paths:
            return
        path = choose.choice(paths)
        copy, spent = self.root / f"lane-{self.lane}" / "copy", spends(out)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(out, copy)
        has_key = (out / "private" / "run.json").exists()
        how = damage(path, choose)
        self.counted["damaged"] += 1
        code, said = self._whole(name, out)
        if code == 0:
            self.counted["damage mended"] += 1
            return
        self.counted["damage refused"] += 1
        links = path.parent.name == "private" and how == "made a link"  # never followed, never mended
        if (
            "Traceback" in said
            or "error [" not in said
            or (has_key and path.name not in UNMENDABLE and not links)
        ):
            self._fault(name, out, f"{path.name} {how}, which ended with {code}: {said}")
        if path.name != "ledger.jsonl" and spends(out) != spent:
            self._fault(name, out, f"{path.name} {how}: {spends(out)} spends instead of {spent}")
        shutil.rmtree(out)
        shutil.copytree(copy, out)

    def _fault(self, name: str, out: Path, what: str) -> None:
        self.faults.append(f"{name}, seed {self.seed}, {out}: {what}")


def stopping(claim: Callable[[RunFolder], None]) -> Callable[[RunFolder], None]:
    """The same, but the process stops itself right before it."""

    def stopped(folder: RunFolder) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        claim(folder)

    return stopped


def damage(path: Path, choose: random.Random) -> str:
    """Do something to a file; returns what, in words."""
    data = path.read_bytes()
    how = choose.choice(["removed", "emptied", "cut", "changed", "made a folder", "made a link", "replaced"])
    if how in ("removed", "made a folder", "made a link"):
        path.unlink()
    if how == "made a folder":
        path.mkdir()
    elif how == "made a link":
        path.symlink_to("/dev/null")
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(data[: choose.randrange(len(data) + 1)])
    elif how == "replaced":
        path.write_bytes(b"[" * 100_000)
    elif how == "changed" and data:
        place = choose.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << choose.randrange(8)]) + data[place + 1 :])
    return how


def reference(
    root: Path, names: Collection[str]
) -> tuple[dict[str, float], dict[str, dict[str, str]], dict[str, int]]:
    """Seconds, contents and spends of undisturbed runs; the second of two, when everything is compiled."""
    seconds, wanted, spent = {}, {}, {}
    made = products(root)
    for name in names:
        for again in range(2):
            out = root / "whole" / f"{name}-{again}"
            begun = time.monotonic()
            said = root / "said"
            if ended(started(partial(made[name], out), said)):
                sys.exit(f"an undisturbed run of {name} failed: {said.read_text()}")
            seconds[name] = time.monotonic() - begun
        wanted[name], spent[name] = contents(out), spends(out)
    return seconds, wanted, spent


def main() -> int:
    """Run the trials; 0 where there is no fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--number", type=int, default=1000, help="kills that must land")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--product", action="append", help="kill this product alone; may be repeated")
    parser.add_argument("--lanes", type=int, default=2, help="trials at the same time")
    chosen = parser.parse_args()
    begun = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="soak-"))
    names = chosen.product or [name for name in products(root) if name not in LONG]
    if ended(started(lambda: write_inputs(root, names), root / "said")):
        sys.exit((root / "said").read_text())
    prepare()
    seconds, wanted, spent = reference(root, names)
    print("seconds of a run:", {name: round(value, 2) for name, value in seconds.items()}, flush=True)
    share = -(-chosen.number // chosen.lanes)
    lanes = [Trials(root, lane, chosen.seed, share, seconds, wanted, spent) for lane in range(chosen.lanes)]

    def work(lane: Trials) -> None:
        lane.run()
        found = {"counted": lane.counted, "faults": lane.faults}
        (root / f"found-{lane.lane}").write_text(json.dumps(found))

    processes = [started(partial(work, lane), root / f"lane-{lane.lane}-said") for lane in lanes]
    broken = [lane for lane, process in zip(lanes, processes, strict=True) if ended(process)]
    counted: Counter[str] = Counter()
    faults = [(root / f"lane-{lane.lane}-said").read_text() for lane in broken]
    for lane in lanes:
        if lane not in broken:
            found = json.loads((root / f"found-{lane.lane}").read_text())
            counted.update(found["counted"])
            faults += found["faults"]
    for name, value in sorted(counted.items()):
        print(f"{name}: {value}")
    print(f"seconds: {time.monotonic() - begun:.0f}")
    for fault in faults:
        print(f"FAULT {fault}")
    print("no fault" if not faults else f"{len(faults)} faults; see {root}")
    if not faults:
        shutil.rmtree(root)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
