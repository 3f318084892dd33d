"""What a wrong argument is answered with, by room: the class of the error, its code, and words of its message.

A row holds words of the message (a regular expression), a call, and the arguments to try one by one, if there are any.
Refusals that need a file, a folder or a long setting stand with the tests of their module.
"""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from tests.populations import make_population

from tallyveil.accounting import (
    ZCDP,
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    InvariantEvent,
    Neighbours,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    SequentialEvent,
    WorstEvent,
    ZcdpCurve,
    calibrate,
    calibrate_to_curve,
    compose,
    epsilon_of,
    renyi_epsilon,
    rho_of,
    translate,
    zcdp_to_delta,
    zcdp_to_epsilon,
)
from tallyveil.accounting.engines.ball_tails import Proved, resolving_bits
from tallyveil.accounting.engines.tails import ManyBounds
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.guarantee import Guarantee
from tallyveil.accounting.losses import (
    Choice,
    GaussianLoss,
    LaplaceLoss,
    alternatives_of,
    loss_law_of,
    merged,
)
from tallyveil.accounting.numbers import Bounds
from tallyveil.accounting.proved import classical_epsilons
from tallyveil.accounting.renyi import zcdp_to_epsilon_textbook
from tallyveil.budget.presets import load_product, load_strategy_preset
from tallyveil.budget.strategy import parse_fraction
from tallyveil.errors import (
    BudgetError,
    ConfigError,
    ConstraintError,
    GeographyError,
    SchemaError,
    SolverError,
)
from tallyveil.estimation.problem import RoundingStage
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.census import Sources, import_geography
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import uniform_shares
from tallyveil.geography.steps import FanOutLimit
from tallyveil.noise import NoiseSource, derive_key, insecure_key, laws
from tallyveil.noise.address import checked_answers, checked_geounits
from tallyveil.products.safetab.public.groupings import grouping_from_rows
from tallyveil.schema.attribute import Attribute, Recode, StructuralZero, ranges_of
from tallyveil.schema.schema import Schema
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.nearest_planes import nearest_planes
from tallyveil.subspace.guarantee import compose_guarantees, event_of, laplace_guarantee
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace
from tallyveil.synthetic.country import make_geography
from tallyveil.synthetic.population import PublishedCounts

BOUNDED, UNBOUNDED = Neighbours.BOUNDED, Neighbours.UNBOUNDED
GAUSSIAN, LAPLACE = DiscreteGaussian(8, multiplicity=2), DiscreteLaplace(3, multiplicity=2)
LOOK = NonPrivateEvent("a look")
KEY = bytes(range(32))
EMPTY = pl.DataFrame()
SUM = lattice_of(ConstraintSystem.from_sets([range(4)], 4, ["state total"]))
TRACTS = spine_from_columns({"Tract": ["s", "t"], "Block": ["b", "c"]}, ("Tract", "Block"))

AGE = Attribute("age", ("child", "adult", "elder"))
SEX = Attribute("sex", ("male", "female"))
GROWN = Recode("grown", "age", (("yes", ("adult", "elder")), ("no", ("child",))))
SMALL = Schema("small", (SEX, AGE), (GROWN,))

NO_EXACT_NUMBERS = (
    *(2.5, math.nan, math.inf, Decimal("inf"), Decimal("1e999999999"), True, None),
    *("nan", "1/0", "x", "", "1e999999999", "1_0", "1" * 5000),
)
NO_FRACTIONS = (
    "",
    "1/",
    "/2",
    "1/2/3",
    "a",
    "1 / 2",
    "0x10",
    "1_000",
    "nan",
    "inf",
    "1e9999",
    "٣",
    True,
    None,
    [],
)
NO_COUNTS = (0, -1, 1.0, True, "1.5", Fraction(1, 2), "x")
NO_DELTAS = (Fraction(0), Fraction(1), Fraction(-1, 2), Fraction(2))
NO_PARAMETERS = (Fraction(0), Fraction(-1), Fraction(10**10 + 1), Fraction(1, 10**13), 68.49, 5, "5")

REFUSALS: dict[tuple[str, type[Exception], str | None], list[tuple[Any, ...]]] = {
    ("accounting: what is composed", TypeError, None): [
        ("neighbours", lambda: cast(Any, compose)(GAUSSIAN)),
    ],
    ("accounting: what is composed", BudgetError, "budget"): [
        (
            r"must be 'bounded' .* or 'unbounded'",
            lambda given: compose(GAUSSIAN, neighbours=given),
            ("add-remove", "BOUNDED", None, True),
        ),
        ("Put a star", lambda: compose([GAUSSIAN, LAPLACE], neighbours=BOUNDED)),
        ("takes privacy events, got 5", lambda: compose(5, neighbours=BOUNDED)),
        ("a look", lambda: compose(GAUSSIAN, LOOK, neighbours=BOUNDED)),
        ("no engine 'fast'", lambda: compose(GAUSSIAN, neighbours=UNBOUNDED, engine="fast")),
        ("closed_form cannot", lambda: compose(LAPLACE, neighbours=UNBOUNDED, engine="closed_form")),
        ("integer noise only", lambda: compose(Gaussian(1), neighbours=UNBOUNDED, engine="quadrature")),
        (
            "direct cannot take these privacy losses. Ask",
            lambda: compose(PoissonSampled(Gaussian(1), "1/100"), neighbours=UNBOUNDED, engine="direct"),
        ),
    ],
    ("accounting: what has no finite cost", BudgetError, "budget"): [
        (
            r"no finite cost \(a look\)",
            lambda cost: cost(SequentialEvent((InvariantEvent("total"), ParallelEvent((LOOK,))))),
            (rho_of, epsilon_of),
        ),
        (
            r"no finite cost \(a look\)",
            lambda cost: cost(WorstEvent((InvariantEvent("total"), LOOK))),
            (rho_of, epsilon_of),
        ),
        ("no finite pure epsilon", lambda: epsilon_of(ParallelEvent((LAPLACE, GAUSSIAN)))),
        (
            r"non-private event has no finite guarantee \(a look\)",
            lambda: loss_law_of(AdaptiveEvent((LOOK,))),
        ),
        (
            r"no finite guarantee \(a look\)",
            lambda read: read(SequentialEvent((LAPLACE, ParallelEvent((LOOK,))))),
            (loss_law_of, lambda event: alternatives_of(event, BOUNDED)),
        ),
        (
            r"no finite guarantee \(a look\)",
            lambda read: read(SequentialEvent((LAPLACE, ParallelEvent((WorstEvent((LAPLACE, LOOK)),))))),
            (loss_law_of, lambda event: alternatives_of(event, BOUNDED)),
        ),
        ("a look", lambda: classical_epsilons(LOOK, Fraction(1, 10**10))),
        ("a look", lambda: renyi_epsilon(SequentialEvent((LAPLACE, LOOK)), "1e-10")),
    ],
    ("accounting: parameters of events", BudgetError, "budget"): [
        ("variance of DiscreteGaussian must be an exact number", DiscreteGaussian, NO_EXACT_NUMBERS),
        ("scale of DiscreteLaplace must be an exact number", DiscreteLaplace, NO_EXACT_NUMBERS),
        (r"Write '0\.1', as text, or better an exact fraction", lambda: DiscreteGaussian(0.1)),
        (r"got -5\.", lambda: DiscreteGaussian(Fraction(-5))),
        (r"got -5\.", lambda: DiscreteLaplace(3, Fraction(-5))),
        ("must be above 0", DiscreteGaussian, (0, -1, "-5/2", Fraction(0))),
        ("must be above 0", DiscreteLaplace, (0, -1, "-5/2", Fraction(0))),
        ("must be an integer of 1 or more", lambda count: DiscreteGaussian(1, count), NO_COUNTS),
        ("must be an integer of 1 or more", lambda count: DiscreteGaussian(1, 1, count), NO_COUNTS),
        ("must be an integer of 1 or more", lambda count: DiscreteLaplace(1, count), NO_COUNTS),
        ("must be an integer of 1 or more", lambda count: DiscreteLaplace(1, 1, count), NO_COUNTS),
        ("must be an integer of 1 or more", lambda count: ParallelEvent((), count), NO_COUNTS),
        ("AdaptiveEvent has no branch", lambda: AdaptiveEvent(())),
        ("WorstEvent has no branch", lambda: WorstEvent(())),
        ("'adaptive' or 'public'", lambda: WorstEvent((LAPLACE,), chosen="secret")),
    ],
    ("accounting: noise for a guarantee, and conversions", BudgetError, "budget"): [
        (
            "no factor between",
            lambda: calibrate(SequentialEvent(()), epsilon=1, delta="1e-9", neighbours=UNBOUNDED),
        ),
        (
            "Check that the event",
            lambda: calibrate(InvariantEvent("total"), epsilon=1, delta="1e-9", neighbours=BOUNDED),
        ),
        (
            "smallest delta",
            lambda delta: calibrate_to_curve(
                GAUSSIAN, reference=ZcdpCurve(Fraction(1)), smallest_delta=delta, neighbours=UNBOUNDED
            ),
            (0, 1, "2"),
        ),
        ("at least one composition", lambda: Guarantee(GAUSSIAN, (Choice(()),), BOUNDED)),
        ("rho above 0", lambda: ZcdpCurve(Fraction(0))),
        ("epsilon must be 0 or more", lambda: zcdp_to_delta(Fraction(1), Fraction(-1))),
        (
            "rho must be 0 or more",
            lambda convert: convert(Fraction(-1), Fraction(1, 2)),
            (zcdp_to_epsilon, zcdp_to_delta, zcdp_to_epsilon_textbook),
        ),
        ("between 0 and 1", lambda delta: zcdp_to_epsilon(Fraction(1), delta), NO_DELTAS),
        ("between 0 and 1", lambda delta: zcdp_to_epsilon_textbook(Fraction(1), delta), NO_DELTAS),
        (
            "lower <= upper",
            lambda ends: Bounds(*ends),
            ((1.0, 0.5), (math.nan, 1.0), (0.0, math.nan), (math.inf, 0.0)),
        ),
        (
            "lower <= upper",
            lambda ends: ManyBounds(*np.array([[0.0, 0.0], ends]).T),
            ((1.0, 0.0), (math.nan, 1.0), (0.0, math.nan)),
        ),
    ],
    ("accounting: the other relation", BudgetError, "no-translation"): [
        (
            "odd multiplicity",
            lambda: translate(SequentialEvent((DiscreteGaussian(2, 1, 3),)), BOUNDED, UNBOUNDED),
        ),
        ("no noisy partition query", lambda: translate(ZCDP(1), UNBOUNDED, BOUNDED)),
        (
            "states the distance",
            lambda: translate(IntegerSubspaceGaussian(10, 1), UNBOUNDED, BOUNDED),
        ),
    ],
    ("accounting: engines", BudgetError, "budget"): [
        ("points", lambda: Proved.build((GaussianLoss(Fraction(10**14), 1, 1),))),
        (
            "points",
            lambda: Proved.build(
                (GaussianLoss(Fraction(1000003, 1009), 1, 1), GaussianLoss(Fraction(999983, 1013), 1, 1))
            ),
        ),
        ("points", lambda: Proved.build((GaussianLoss(Fraction(10**400), 1, 1),))),
        ("bits", lambda: Proved.build((LaplaceLoss(Fraction(1), 1, 1 << 25),))),
        ("bits", lambda: Proved.build((GaussianLoss(Fraction(1, 10**400), 1, 1),))),
        (
            "positive parameter",
            lambda factor: merged((factor,)),
            (
                GaussianLoss(Fraction(0), 1, 1),
                LaplaceLoss(Fraction(1), 0, 1),
                GaussianLoss(Fraction(1), 1, 0),
            ),
        ),
        ("finite", lambda: TiltedFFT((GaussianLoss(Fraction(1), 1, 1),)).log_tails(math.inf)),
        ("positive", lambda: TiltedFFT((GaussianLoss(Fraction(-1), 1, 1),))),
        (
            r"costs rho = 5000000, and the least delta asked for is exp\(-20\.72\)",
            lambda: resolving_bits((GaussianLoss(Fraction(1, 10**7), 1, 1),), Fraction(1, 10**9)),
        ),
        (
            r"costs rho = 5e\+29, and the least",
            lambda: resolving_bits((GaussianLoss(Fraction(1, 10**30), 1, 1),), Fraction(1, 10**9)),
        ),
        (
            r"costs rho = 5e\+499, and the least",
            lambda: resolving_bits((GaussianLoss(Fraction(1, 10**500), 1, 1),), Fraction(1, 10**9)),
        ),
    ],
    ("accounting: engines", SolverError, "solver"): [
        ("lattice", lambda: TiltedFFT((GaussianLoss(Fraction(10**14), 1, 1),))),
    ],
    ("budget", ConfigError, "config"): [
        (
            r"shares.x is .* no exact number",
            lambda given: parse_fraction(given, "shares.x"),
            NO_FRACTIONS,
        ),
        (
            r'shares.US is the float 0\.1.*Write it as a string: "0\.1"',
            lambda: parse_fraction(0.1, "shares.US"),
        ),
        ("no exact number", lambda: parse_fraction("1/0", "delta")),
    ],
    ("budget", BudgetError, "budget"): [
        (
            "no strategy preset 'dhc'; there are dhc-persons-state-rooted, dhc",
            lambda: load_strategy_preset("dhc"),
        ),
        ("there are redistricting-persons-us", lambda: load_product("dhc")),
    ],
    ("estimation", SchemaError, "schema"): [
        (
            "'fraction' or 'nearest', got 'closest'",
            lambda: RoundingStage((("total", np.zeros(2, int)),), "closest"),
        ),
    ],
    ("geography", ConfigError, "bad-flag"): [
        ("--baf FOLDER", lambda: import_geography(Sources())),
    ],
    ("geography", GeographyError, "geography"): [
        (
            "more than one parent",
            lambda: spine_from_columns(
                {"State": ["a", "b"], "Tract": ["1", "1"], "Block": ["p", "q"]}, ("State", "Tract", "Block")
            ),
        ),
        (
            r"no column for geolevel County\. It has: State",
            lambda: spine_from_columns({"State": ["a"], "Block": ["p"]}, ("State", "County", "Block")),
        ),
        (
            "'b1' lies in 's' and in 't'",
            lambda: spine_from_columns({"Tract": ["s", "t"], "Block": ["b1", "b1"]}, ("Tract", "Block")),
        ),
    ],
    ("geography", GeographyError, "entity-table"): [
        ("int64", lambda: EntityFamily("area", ("a",), np.array([0, 1], np.int32), np.array([0]), 4)),
        ("sorted", lambda: EntityFamily("area", ("b", "a"), np.array([0, 1, 2]), np.array([0, 1]), 4)),
        ("each once", lambda: EntityFamily("area", ("a", "a"), np.array([0, 1, 2]), np.array([0, 1]), 4)),
        ("3 offsets", lambda: EntityFamily("area", ("a", "b"), np.array([0, 2]), np.array([0, 1]), 4)),
        (
            "at least one member",
            lambda: EntityFamily("area", ("a", "b"), np.array([0, 0, 2]), np.array([0, 1]), 4),
        ),
        (
            "rise within",
            lambda members: EntityFamily("area", ("a",), np.array([0, 2]), np.array(members), 4),
            ([1, 0], [1, 1]),
        ),
        (
            "from 0 to 3",
            lambda member: EntityFamily("area", ("a",), np.array([0, 1]), np.array([member]), 4),
            (4, -1),
        ),
    ],
    ("geography", GeographyError, "fan-out-limit"): [
        ("fan-out", lambda limit: FanOutLimit(*limit), ((-1, None), (12, 0), (0, -3))),
    ],
    ("geography", BudgetError, "budget"): [
        (
            "Tract, Block",
            lambda shares: uniform_shares(TRACTS, shares),
            (
                {"Tract": Fraction(1)},
                {"Tract": Fraction(1, 3), "Block": Fraction(2, 3), "State": Fraction(1)},
            ),
        ),
        ("above 0", lambda: uniform_shares(TRACTS, {"Tract": Fraction(0), "Block": Fraction(1)})),
        ("wanted a Fraction", lambda: uniform_shares(TRACTS, cast(Any, {"Tract": 0.5, "Block": 0.5}))),
        ("sum to 2/3", lambda: uniform_shares(TRACTS, {"Tract": Fraction(1, 3), "Block": Fraction(1, 3)})),
    ],
    ("noise", GeographyError, "geography"): [
        (
            "geounits",
            checked_geounits,
            (
                [-1],
                [1 << 36],
                range(-1, 1),
                range(1 << 63, (1 << 63) + 2),
                range(1 << 80, (1 << 80) + 1),
                [[1]],
                [1.0],
                3,
                ["1"],
            ),
        ),
        (
            r"geounits lie in -2\.\.7, wanted 0 to 68719476735\. Number them from 0",
            lambda: checked_geounits([7, -2]),
        ),
    ],
    ("noise", SchemaError, "schema"): [
        ("answers", checked_answers, ([-1], [1 << 48], np.array([2**63], dtype=np.uint64))),
        (
            r"answers has shape \(1, 2\) and type float64, wanted a flat array of whole numbers\.",
            lambda: checked_answers([[0.5, 1]]),
        ),
        (
            "answers",
            lambda n_answers: NoiseSource(KEY).dense(
                laws.DiscreteGaussian(Fraction(9)), 0, 0, [0], n_answers
            ),
            (-1, (1 << 48) + 1),
        ),
        (
            "2 geounits for 1 answers",
            lambda: NoiseSource(KEY).at(laws.DiscreteGaussian(Fraction(9)), 0, 0, [0, 1], [0]),
        ),
    ],
    ("noise", ConfigError, "config"): [
        (
            r"^derive_key: run_key: got a bytes of 3 bytes, wanted 32 bytes",
            lambda: derive_key(b"abc", "measure"),
        ),
        (
            r"^derive_key: run_key: got a str that is not bytes, wanted 32 bytes",
            lambda: derive_key("a" * 32, "measure"),
        ),
        ("purpose", lambda: derive_key(KEY, "")),
    ],
    ("noise", ConfigError, "bad-argument"): [
        ("^the text of a test key is of type int, wanted text", lambda: insecure_key(5)),
        (
            "^the text of a test key is text with bytes that are no UTF-8, wanted text",
            lambda: insecure_key("a\udcff"),
        ),
    ],
    ("noise", BudgetError, "budget"): [
        (r"1e\+05", lambda: laws.DiscreteLaplace(Fraction(10**5 + 1))),
        ("^DiscreteGaussian: variance is", laws.DiscreteGaussian, NO_PARAMETERS),
        ("^DiscreteLaplace: scale is", laws.DiscreteLaplace, NO_PARAMETERS),
        (
            r"is a float \(68\.49\), wanted a fractions",
            lambda law: law(68.49),
            (laws.DiscreteGaussian, laws.DiscreteLaplace),
        ),
        (
            "is about 0, wanted a value from 1/250 to",
            lambda law: law(Fraction(0)),
            (laws.DiscreteGaussian, laws.DiscreteLaplace),
        ),
    ],
    ("safetab", SchemaError, "schema"): [
        ("no group", lambda: grouping_from_rows("chapter", ["a"], "any", [("x", None)])),
    ],
    ("schema: attributes, recodes, zeros", SchemaError, "schema"): [
        ("'male' is given twice", lambda: Attribute("sex", ("male", "male"))),
        ("non-empty", lambda: Attribute("sex", ("male", ""))),
        ("at least one", lambda: Attribute("sex", ())),
        ("non-empty", lambda: Attribute("", ("male",))),
        ("spaces", lambda: Attribute(" sex", ("male",))),
        (r"'\*'", lambda: Attribute("sex*age", ("male",))),
        ("reserved", lambda name: Attribute(name, ("male",)), ("total", "detailed")),
        ("'sex' has no level 'femal'.*'female'", lambda: SEX.code("femal")),
        ("Did you mean 'male'", lambda: Attribute("sex", ("male", "x")).code("MALE")),
        (r"Known: male, female\.", lambda: SEX.code("q")),
        (
            "'child' is in groups 'a' and 'b'",
            lambda: Recode("ages", "age", (("a", ("child",)), ("b", ("adult", "child")))),
        ),
        ("given twice", lambda: Recode("ages", "age", (("a", ("child", "child")),))),
        ("'a' is given twice", lambda: Recode("ages", "age", (("a", ("child",)), ("a", ("adult",))))),
        ("at least one", lambda groups: Recode("ages", "age", groups), ((("a", ()),), ())),
        (
            "'child' is given twice",
            lambda: Recode("ages", "age", (("a", ("child", "child")),), overlapping=True),
        ),
        (
            "recode 'ages': attribute 'age' has no level 'adlt'.*'adult'",
            lambda: Recode("ages", "age", (("a", ("adlt",)),)).layers(AGE),
        ),
        (
            "groups attribute 'sex', got attribute 'age'",
            lambda: Recode("r", "sex", (("a", ("adult",)),)).layers(AGE),
        ),
        ("non-empty", lambda: StructuralZero("", (("age", ("child",)),))),
        ("at least one", lambda levels: StructuralZero("z", levels), ((), (("age", ()),))),
        ("'age' is given twice", lambda: StructuralZero("z", (("age", ("child",)), ("age", ("adult",))))),
    ],
    ("schema: attributes, recodes, zeros", SchemaError, "bad-range"): [
        (
            "share a number",
            lambda levels: ranges_of(levels, "age"),
            (["0-17", "17+"], ["0+", "18+"], ["5", "5"]),
        ),
        ("'young' of attribute 'age' is no range", lambda: ranges_of(["young"], "age")),
        ("is no range", lambda level: ranges_of([level], "age"), ("-5", "1-2-3")),
        ("ends before it begins", lambda: ranges_of(["9-8"], "age")),
        ("above 1,000,000,000", lambda: ranges_of(["0-9999999999"], "age")),
    ],
    ("schema: cells and queries", SchemaError, "schema"): [
        ("lies outside 0 to", SMALL.encode, ([[2, 0]], [[0, 3]], [[0, -1]])),
        (r"wanted \(n, 2\)", lambda: SMALL.encode([[0]])),
        (r"wanted \(n,\)", lambda: SMALL.decode([[0, 0]])),
        ("outside", lambda ask: ask([-1]), (SMALL.decode, SMALL.possible, SMALL.query("sex").answers_of)),
        ("outside", lambda ask: ask([6]), (SMALL.decode, SMALL.possible, SMALL.query("sex").answers_of)),
        (r"no attribute or recode 'sexx'\. Did you mean 'sex'", lambda: SMALL.query("sexx")),
        ("'tota'.*'total'", lambda: SMALL.query("sex*tota")),
        ("no attribute or recode 'total'", lambda: SMALL.query("sex*total")),
        ("'age' and 'grown' are both of attribute 'age'", lambda: SMALL.query("age*grown")),
        ("'sex' and 'sex' are both", lambda: SMALL.query("sex*sex")),
        ("no attribute or recode ''", SMALL.query, ("", "sex*")),
    ],
    ("subspace", SolverError, "solver"): [
        ("too large", lambda: nearest_planes(lattice_of(ConstraintSystem.from_sets([], 250)), Fraction(1))),
        (
            r"\(number of cells: 1\).*27152901 entries",
            lambda: SumLaws(laws.DiscreteLaplace(Fraction(10**5))).table(1),
        ),
    ],
    ("subspace", ConstraintError, "subspace-nothing-left"): [
        (
            "the invariants determine the table",
            lambda: lattice_of(ConstraintSystem.from_matrix([[1, 1], [1, -1]])),
        ),
    ],
    ("subspace", BudgetError, "subspace-parameter"): [
        ("infinite noise", lambda: GeneralisedLaplace("l1", Fraction(0))),
        (
            "GeneralisedLaplace: epsilon is",
            lambda size: GeneralisedLaplace("l1", size),
            (Fraction("1e400"), 0.25),
        ),
        ("epsilon is about", lambda size: GeneralisedLaplace("l2", size), (Fraction(-1), Fraction("1e-400"))),
        ("variance is about", GeneralisedGaussian, (Fraction(0), Fraction(10**11), Fraction("-1e400"))),
        (
            "distance of at least 1",
            lambda: laplace_guarantee(GeneralisedLaplace("l1", Fraction(1, 4)), SUM).at(Fraction(1, 2)),
        ),
        ("an integer", lambda: event_of(GeneralisedGaussian(Fraction(3)), SUM, Fraction(1, 2))),
    ],
    ("subspace", BudgetError, "budget"): [
        (
            "Run the chain longer",
            lambda: laplace_guarantee(GeneralisedLaplace("l1", Fraction(1, 4)), SUM, Fraction(1)),
        ),
        ("at least one", lambda: compose_guarantees([])),
    ],
    ("subspace", ConstraintError, "subspace-not-integer"): [
        ("'constraint 1': cell 0 has coefficient 0.5", lambda: ConstraintSystem.from_matrix([[0.5, 1]])),
        ("wanted an integer", lambda: ConstraintSystem.from_matrix([[np.nan, 1]])),
    ],
    ("subspace", ConstraintError, "subspace-unknown-cell"): [
        ("'county'", lambda: ConstraintSystem.from_sets([[0, 7]], 5, ["county"])),
        (r"cells \[-1\]", lambda: ConstraintSystem.from_sets([[0, -1]], 5)),
    ],
    ("subspace", ConstraintError, "subspace-constraints"): [
        ("more than once", lambda: ConstraintSystem.from_sets([[0, 0]], 5)),
        ("wanted a matrix", lambda: ConstraintSystem.from_matrix([1, 2])),
        ("no column", lambda: ConstraintSystem.from_matrix(np.zeros((2, 0)))),
        ("below 2", lambda: ConstraintSystem.from_matrix([[1 << 40]])),
        ("Give one name for each", lambda: ConstraintSystem.from_matrix([[1]], ["a", "b"])),
        ("2 cells", lambda: ConstraintSystem.from_matrix([[1, 1]]).totals([1])),
        ("integers", lambda: ConstraintSystem.from_matrix([[1, 1]]).totals([1.5, 2])),
        ("overflow", lambda: ConstraintSystem.from_matrix([[1, 1]]).totals([1 << 62, 2])),
    ],
    ("synthetic", ConfigError, "config"): [
        ("Known: pl94-persons, pl94-units, race-age", lambda: make_population("pl94", 10, 1, None)),
        ("seed is -1", lambda: make_population("race-age", 10, -1, None)),
        ("both were given", lambda: make_population("race-age", 3, 1, PublishedCounts(EMPTY, EMPTY))),
        ("neither was given", lambda: make_population("race-age", None, 1, None)),
        ("number of blocks", lambda: make_population("race-age", 0, 1, None)),
        (
            "number of states",
            lambda n_states: make_geography(1_000, np.random.Generator(np.random.PCG64(3)), n_states),
            (0, 52),
        ),
    ],
}


def cases() -> Iterator[Any]:
    """One case for each call, or for each argument of a call."""
    for (room, error, code), rows in REFUSALS.items():
        for words, call, *arguments in rows:
            for given in [(argument,) for argument in arguments[0]] if arguments else [()]:
                yield pytest.param(call, given, error, code, words, id=f"{room}: {words}")


@pytest.mark.parametrize(("call", "given", "error", "code", "words"), list(cases()))
def test_a_wrong_argument_is_refused(
    call: Callable[..., object], given: tuple[Any, ...], error: type[Exception], code: str | None, words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        call(*given)
    assert getattr(caught.value, "code", None) == code
