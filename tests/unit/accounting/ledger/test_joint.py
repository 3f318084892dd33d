"""Several runs on the same people, from their ledgers."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tallyveil.accounting import (
    Declaration,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    InvariantEvent,
    Ledger,
    Neighbours,
    NonPrivateEvent,
    PrivacyEvent,
    SequentialEvent,
    compose,
    renyi_epsilon,
    rho_of,
    zcdp_to_epsilon,
)
from tallyveil.accounting.events import TEST_KEY, WITHOUT_NOISE
from tallyveil.accounting.ledger.joint import (
    added_delta,
    left_of,
    odometer_of,
    published_epsilon,
    published_guarantee,
    read_joint,
    runs_in,
)
from tallyveil.errors import BudgetError, StoreError

FIRST = SequentialEvent((DiscreteGaussian(10, multiplicity=2), InvariantEvent("total at State")))
SECOND = DiscreteLaplace(4, multiplicity=2)
BOUNDED = Neighbours.BOUNDED


def run(folder: Path, event: PrivacyEvent, unit: str = "rho", neighbours: Neighbours = BOUNDED) -> Path:
    folder.mkdir()
    with Ledger(folder / "ledger.jsonl", Declaration(unit, Fraction(10), neighbours), folder.name) as ledger:
        ledger.spend(event, f"release {folder.name}", "release")
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [run(tmp_path / "a", FIRST), run(tmp_path / "b", SECOND, "epsilon")]


def test_events_of_all_ledgers_follow_one_another(runs: list[Path]) -> None:
    assert read_joint(runs).event == SequentialEvent((FIRST, SECOND))
    assert read_joint([path / "ledger.jsonl" for path in runs]).event == read_joint(runs).event
    joint = read_joint(reversed(runs))
    assert joint.event == joint.paid == SequentialEvent((SECOND, FIRST))
    assert (joint.neighbours, joint.non_private) == (BOUNDED, ())


UNBOUNDED = Neighbours.UNBOUNDED


def test_a_release_under_unbounded_neighbours_counts_as_a_change_beside_bounded_ones(runs, tmp_path) -> None:
    other = run(tmp_path / "c", DiscreteGaussian(5, multiplicity=3), neighbours=UNBOUNDED)
    joint = read_joint([*runs, other], releases=[*runs, other])
    assert joint.neighbours is BOUNDED
    assert joint.event == SequentialEvent((FIRST, SECOND, DiscreteGaussian(5, multiplicity=6)))
    assert joint.translated == (other / "ledger.jsonl",)
    # Alone, or beside others of its kind, it is what it says.
    alone = read_joint([other], releases=[other])
    assert (alone.neighbours, alone.translated) == (UNBOUNDED, ())
    assert alone.event == SequentialEvent((DiscreteGaussian(5, multiplicity=3),))
    # A plain ledger may hold noise on any query, of which nothing is known for a change.
    with pytest.raises(BudgetError, match="do not add up"):
        read_joint([*runs, other], releases=runs)
    lattice = run(tmp_path / "d", IntegerSubspaceGaussian(10, 1), neighbours=UNBOUNDED)
    with pytest.raises(BudgetError, match="nothing to translate"):
        read_joint([*runs, lattice], releases=[*runs, lattice])


def test_an_odometer_and_a_filter_over_ledgers(runs) -> None:
    joint = read_joint(runs)
    # 2 / (2 * 10), and epsilon^2 / 2 of each of two answers.
    spent = Fraction(1, 10) + Fraction(1, 16)
    odometer = odometer_of(joint, Fraction(1, 10**10))
    assert odometer.rho == spent
    assert odometer.epsilon > published_epsilon(joint, Fraction(1, 10**10)).bounds.upper
    assert left_of(joint, spent) == 0
    assert left_of(joint, Fraction(1)) == 1 - spent
    with pytest.raises(BudgetError, match="the releases spent rho 13/80") as caught:
        left_of(joint, Fraction(16, 100))
    assert caught.value.code == "filter-spent"
    chain = replace(
        joint, event=SequentialEvent((IntegerSubspaceGaussian(20, 2, ("x",), Fraction(1, 1000)),))
    )
    with pytest.raises(BudgetError, match="total variation"):
        left_of(chain, Fraction(1))
    unprotected = replace(joint, unprotected=("a test key",))
    for ask in (odometer_of, left_of):
        with pytest.raises(BudgetError, match="no finite guarantee"):
            ask(unprotected, Fraction(1, 2))


def test_runs_in_a_folder_are_found_by_name(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert runs_in(tmp_path) == tuple(path / "ledger.jsonl" for path in runs)
    with pytest.raises(StoreError, match="holds no run"):
        runs_in(tmp_path / "notes")


def test_the_joint_guarantee_is_that_of_everything_together(runs: list[Path]) -> None:
    found = published_guarantee(read_joint(runs))
    wanted = compose(FIRST, SECOND, neighbours=BOUNDED)
    assert found.epsilon("1e-10") == wanted.epsilon("1e-10")
    assert found.invariants == ("total at State",)
    assert found.epsilon("1e-10").lower > published_guarantee(read_joint(runs[:1])).epsilon("1e-10").upper


def test_different_neighbours_do_not_add_up(runs: list[Path], tmp_path: Path) -> None:
    other = run(tmp_path / "c", FIRST, neighbours=Neighbours.UNBOUNDED)
    with pytest.raises(BudgetError, match=r"under bounded.*under unbounded|under unbounded.*under bounded"):
        read_joint([*runs, other])


def test_what_no_budget_pays_for_is_named_beside_the_guarantee_of_the_rest(runs: list[Path]) -> None:
    with Ledger(runs[1] / "ledger.jsonl", Declaration("epsilon", Fraction(10), BOUNDED), "b") as ledger:
        ledger.declassify(NonPrivateEvent("errors against the truth"), "evaluation", "evaluate")
    joint = read_joint(runs)
    assert joint.event == SequentialEvent((FIRST, SECOND, NonPrivateEvent("errors against the truth")))
    assert joint.paid == SequentialEvent((FIRST, SECOND))
    (named,) = joint.non_private
    assert named == f"evaluation (errors against the truth; line 2 of {runs[1] / 'ledger.jsonl'})"
    assert published_guarantee(joint) == compose(FIRST, SECOND, neighbours=BOUNDED)


@pytest.mark.parametrize("act", [TEST_KEY, WITHOUT_NOISE])
def test_noise_that_anybody_can_subtract_and_no_noise_leave_no_guarantee(
    runs: list[Path], act: NonPrivateEvent
) -> None:
    with Ledger(runs[1] / "ledger.jsonl", Declaration("epsilon", Fraction(10), BOUNDED), "b") as ledger:
        ledger.declassify(NonPrivateEvent("errors against the truth"), "evaluation", "evaluate")
        ledger.declassify(act, "what protects nothing", "act")
    joint = read_joint(runs)
    assert len(joint.non_private) == 2
    (named,) = joint.unprotected
    assert named.startswith(f"what protects nothing ({act.reason}")
    with pytest.raises(BudgetError, match="epsilon is infinite"):
        published_guarantee(joint)


def test_a_ledger_counts_once_and_must_be_there(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="named more than once"):
        read_joint([runs[0], tmp_path / "b" / ".." / "a" / "ledger.jsonl"])
    with pytest.raises(StoreError, match="no ledger to add up"):
        read_joint([])
    with pytest.raises(StoreError, match="could not read"):
        read_joint([tmp_path / "absent"])


def test_a_ledger_whose_spend_was_cut_off_costs_not_nothing(runs: list[Path]) -> None:
    """The chain of hashes does not show that lines are missing at the end."""
    path = runs[0] / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:50])
    with pytest.raises(StoreError, match="shows no spend") as caught:
        read_joint(runs)
    assert caught.value.code == "ledger-damaged"


DELTA = Fraction(1, 10**10)
LATTICE = IntegerSubspaceGaussian(10, 2, ("county totals",))
CHAIN = IntegerSubspaceLaplace("1/2", "l1", 2, ("age totals",), "1e-9")


def test_gaussian_noise_on_a_lattice_is_bounded_by_normal_noise_and_more(tmp_path: Path) -> None:
    joint = read_joint([run(tmp_path / "a", FIRST), run(tmp_path / "b", LATTICE)])
    with pytest.raises(BudgetError, match="no worst one"):
        published_guarantee(joint)
    assert rho_of(FIRST) + rho_of(LATTICE) == Fraction(1, 5)
    proved = published_epsilon(joint, DELTA)
    normal = Gaussian(LATTICE.variance / LATTICE.squared_distance)
    least = compose(FIRST, normal, neighbours=BOUNDED).epsilon(DELTA).upper
    assert least < proved.bounds.upper < least + 0.05 < zcdp_to_epsilon(Fraction(1, 5), DELTA)
    assert proved.bounds.lower == compose(FIRST, neighbours=BOUNDED).epsilon(DELTA).lower
    assert proved.engines[-1] == "shared"
    assert "lattice" in proved.not_exact
    assert added_delta(joint, Fraction(1)) == 0


def test_lattice_noise_of_little_variance_is_bounded_by_renyi_divergences(tmp_path: Path) -> None:
    """By rho alone the same two releases would cost more."""
    pure, lattice = DiscreteLaplace(2, 1, 2), IntegerSubspaceGaussian("1/3", 2)
    joint = read_joint([run(tmp_path / "a", pure, "epsilon"), run(tmp_path / "b", lattice)])
    proved = published_epsilon(joint, DELTA)
    assert proved.bounds.upper == renyi_epsilon(SequentialEvent((pure, lattice)), DELTA).value
    assert proved.engines[-1] == "renyi"


def test_what_a_sampler_is_off_is_added_to_delta(tmp_path: Path) -> None:
    joint = read_joint([run(tmp_path / "a", CHAIN, "epsilon")])
    proved = published_epsilon(joint, DELTA)
    assert proved.bounds.upper == 1.0
    assert proved.engines[-1] == "pure"
    assert added_delta(joint, Fraction(1)) == pytest.approx(1e-9 * (1 + math.e))


def test_what_is_published_has_the_epsilon_of_its_composition(runs: list[Path]) -> None:
    joint = read_joint(runs)
    assert published_epsilon(joint, DELTA).bounds == published_guarantee(joint).epsilon(DELTA)
    assert published_epsilon(joint, DELTA).not_exact == ""


@pytest.mark.parametrize("act", [TEST_KEY, WITHOUT_NOISE])
def test_no_upper_bound_covers_what_is_not_protected(runs: list[Path], act: NonPrivateEvent) -> None:
    with Ledger(runs[0] / "ledger.jsonl", Declaration("rho", Fraction(10), BOUNDED), "a") as ledger:
        ledger.declassify(act, "no protection", "key")
    with pytest.raises(BudgetError, match="no finite guarantee"):
        published_epsilon(read_joint(runs), DELTA)


def test_lines_copied_from_another_ledger_count_once(runs: list[Path], tmp_path: Path) -> None:
    """Copies alone count; beside their original, or beside each other, they do not, but what follows them does."""
    copies = [tmp_path / "c", tmp_path / "d"]
    look = NonPrivateEvent("a look")
    for folder in copies:
        folder.mkdir()
        (folder / "ledger.jsonl").write_bytes((runs[0] / "ledger.jsonl").read_bytes())
    with Ledger(copies[1] / "ledger.jsonl", Declaration("rho", Fraction(10), BOUNDED), "estimate") as ledger:
        ledger.declassify(look, "evaluated", "look")
    copied = dict.fromkeys(copies, 2)
    assert read_joint(copies[:1], copied).event == SequentialEvent((FIRST,))
    assert read_joint([runs[0], *copies], copied).event == SequentialEvent((FIRST, look))
    assert read_joint([*copies, runs[0]], copied).event == SequentialEvent((look, FIRST))
    assert read_joint(copies, copied).event == SequentialEvent((FIRST, look))
    assert read_joint([copies[0], runs[1]], copied).event == SequentialEvent((FIRST, SECOND))
    assert read_joint([runs[0], copies[0]]).event == SequentialEvent((FIRST, FIRST))  # not known to be a copy


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """Ledgers without a chain may hold other ends of lines within a line; they make no two runs one."""
    folders = []
    for name, variance in (("a", 10), ("b", 20)):
        declared = {"sequence": 0, "kind": "declaration", "format": 1, "budget_unit": "rho", "budget": "9"}
        event = {
            "kind": "discrete_gaussian",
            "variance": str(variance),
            "squared_sensitivity": 2,
            "multiplicity": 1,
        }
        spend = {
            "sequence": 1,
            "kind": "spend",
            "description": "d",
            "token": "t",
            "run": "r",
            "cost": f"1/{variance}",
        }
        lines = [{**declared, "neighbours": "bounded", "run": "r"}, {**spend, "event": event}]
        text = "".join(json.dumps(line).replace(" ", "\r", 1) + "\n" for line in lines)
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.jsonl").write_bytes(text.encode())
        folders.append(tmp_path / name)
    assert rho_of(read_joint(folders, {folders[1]: 2}).event) == Fraction(3, 20)
