"""Reads config.json of the published format: budgets, thresholds and switches, in exact numbers."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import ConfigError
from tallyveil.exact import fraction_of
from tallyveil.products.safetab.public.files import some
from tallyveil.storage.json_files import read_text_file

CONFIG: Final = "config.json"
"""Name of the file, as in the published code."""

GEOGRAPHIES: Final = MappingProxyType(
    {
        "US": ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH"),
        "PR": ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE"),
    }
)
NATIONWIDE: Final = frozenset({"USA", "STATE", "PR-STATE"})
"""Geographies with Detailed iterations and without suppression. All other geographies are sub-state."""

LEVELS: Final = (1, 2)
"""Iteration levels: 1 regional, 2 detailed. Level 0 of the files is not tabulated."""

STATES: Final = tuple(f"{n:02d}" for n in range(1, 57) if n not in (3, 7, 14, 43, 52))
PUERTO_RICO: Final = "72"
MOST_CODES: Final = 8
"""Race codes of a record in the published format: QRACE1 to QRACE8. The
kernels have room for 16 iterations of a person, so twice as many codes would not fit."""

LARGEST_THRESHOLD: Final = 2**60
"""Largest absolute value of a threshold, so that it and its differences from noisy counts fit int64. No
population comes near; half of it would do, and 2**63 would overflow."""

_FIXED_KEYS: Final = (
    "max_race_codes",
    "privacy_budget_p_stage_1_fraction",
    "thresholds_p",
    "zero_suppression_chance",
    "allow_negative_counts",
    "run_us",
    "run_pr",
    "reader",
    "state_filter_us",
    "privacy_defn",
)
_OPTIONAL: Final = ("zero_suppression_chance",)
_MECHANISMS: Final = {"puredp": Mechanism.DISCRETE_LAPLACE, "zcdp": Mechanism.DISCRETE_GAUSSIAN}

Level = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SafetabConfig:
    """The configuration of the runs.

    Attributes:
        max_race_codes: Number of race codes of a person that are read, 1 to 8.
        mechanism: Discrete Gaussian (budgets are rho) or discrete Laplace (budgets are epsilon).
        stage_1_fraction: Share of a group's budget for the count that chooses its detail; between 0 and 1.
        budgets: Budget of each geography and iteration level, for all of its groups together; 0 if not tabulated.
        thresholds: Three non-decreasing counts for each geography and iteration level.
        suppression: Probability that an empty sub-state group remains unpublished; None for no suppression.
        allow_negative: Whether negative counts remain. Otherwise every negative noisy cell is raised to 0.
        runs: "US", "PR" or both.
        states: States of the US run, 2 digits each.
    """

    max_race_codes: int
    mechanism: Mechanism
    stage_1_fraction: Fraction
    budgets: Mapping[Level, Fraction]
    thresholds: Mapping[Level, tuple[int, int, int]]
    suppression: Fraction | None
    allow_negative: bool
    runs: tuple[str, ...]
    states: tuple[str, ...]

    def states_of(self, run: str) -> tuple[str, ...]:
        """States whose people a run tabulates."""
        return self.states if run == "US" else (PUERTO_RICO,)


def budget_key(geography: str, level: int, table: str = "p") -> str:
    """Key of a level's budget, such as `privacy_budget_p_level_2_pr_county`."""
    return f"privacy_budget_{table}_level_{level}_{geography.lower().replace('-', '_')}"


def read_config(folder: Path) -> SafetabConfig:
    """Read and check config.json. One error reports all mistakes.

    Raises:
        ConfigError: keys are missing or unknown, or values have the wrong type or range.
    """
    return parse_config(*read_values(folder))


def read_values(folder: Path) -> tuple[dict[str, Any], str]:
    """The unchecked keys and values of config.json, and the name of the file.

    Raises:
        ConfigError: the file is missing or is not a JSON object, or the folder is a file.
    """
    if folder.is_file():
        raise ConfigError(
            f"{folder} is a file; wanted the parameter folder of the Census layout, with config.json and the four "
            "code files. A TOML file of population groups is for `tallyveil safetab plan`, `validate`, `run` and "
            "`evaluate`.",
            code="safetab-config",
        )
    path = folder / CONFIG
    try:
        text = read_text_file(path)
        values = json.loads(
            text,
            # Exact fractions from the decimal text: 0.1 means a tenth and not the nearest float.
            parse_float=_exact,
            # So that Infinity gets an error that says why, and NaN one that names the key.
            parse_constant=_Constant,
            object_pairs_hook=_no_repeats,
        )
    except (OSError, ValueError, RecursionError) as error:
        # A RecursionError of the parser has a text about Python, not about the file.
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(
            f"{path} cannot be read: {said}. Wanted a file that holds one JSON object.", code="safetab-config"
        ) from None
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path} holds no JSON object. Write one; examples/safetab/config.json shows its keys.",
            code="safetab-config",
        )
    return values, str(path)


def parse_config(values: Mapping[str, Any], where: str = CONFIG) -> SafetabConfig:
    """Check the values of a config. Numbers are integers or fractions.

    Raises:
        ConfigError: see `read_config`.
    """
    # Every method returns a harmless value after a mistake, so that all mistakes are found in one pass.
    reading = ConfigReading(values)
    runs = reading.runs()
    config = SafetabConfig(
        max_race_codes=reading.whole("max_race_codes", 1, MOST_CODES),
        mechanism=reading.mechanism(),
        stage_1_fraction=reading.share("privacy_budget_p_stage_1_fraction", least_allowed=False),
        budgets=MappingProxyType(reading.budgets(runs)),
        thresholds=MappingProxyType(reading.thresholds(runs)),
        suppression=reading.suppression(),
        allow_negative=reading.flag("allow_negative_counts"),
        runs=runs,
        states=reading.states(),
    )
    reading.finish(_FIXED_KEYS, ("p",), where)
    return config


@dataclass(frozen=True, slots=True)
class _Constant:
    """NaN, Infinity or -Infinity."""

    name: str


def _exact(text: str) -> Fraction:
    number = fraction_of(text)
    if number is None:
        raise ValueError(f"the number {text:.40} has too many digits or too large an exponent")
    return number


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    repeated = sorted(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    if repeated:
        raise ValueError(f"key(s) {some(repeated)} are given twice")
    return dict(pairs)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Fraction) and not isinstance(value, bool)


class ConfigReading:
    """One pass over the values. It notes every mistake and continues."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.problems: list[str] = []
        self.infinite = False

    def _value(self, key: str) -> Any:
        if key not in self.values:
            if key not in _OPTIONAL:
                self.problems.append(f"'{key}' is missing. Add it.")
            return None
        return self.values[key]

    def finish(self, fixed: Sequence[str], tables: Sequence[str], where: str) -> None:
        """Raise an error with all noted mistakes and unknown keys, if there are any.

        Args:
            fixed: Keys other than those of budgets.
            tables: Names of tables in the keys of budgets.
            where: Name of the file.
        Raises:
            ConfigError: there is a mistake.
        """
        # Keys of a run that is switched off are known, too, and may be left in the file.
        places = [(g, level) for run in GEOGRAPHIES for g in GEOGRAPHIES[run] for level in LEVELS]
        known = {budget_key(*place, table) for table in tables for place in places}
        # An unknown key is a misspelled one: ignoring it would silently use another setting.
        if unknown := sorted(set(self.values) - known - set(fixed)):
            self.problems.append(f"unknown key(s) {some(unknown)}. Remove them, or correct their spelling.")
        if not self.problems:
            return
        lines = "".join(f"\n- {problem}" for problem in self.problems)
        # An infinite budget alone has a code of its own, because --no-noise is its answer.
        if self.infinite and len(self.problems) == 1:
            raise ConfigError(f"{where}: {self.problems[0]}", code="safetab-infinite")
        raise ConfigError(f"{where} has {len(self.problems)} mistake(s):{lines}", code="safetab-config")

    def whole(self, key: str, least: int, most: int) -> int:
        """An integer in a range."""
        value = self._value(key)
        # In Python, True is an int.
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self._wrong(key, value, f"a whole number from {least} to {most}")
        return least

    def flag(self, key: str) -> bool:
        """A truth value."""
        value = self._value(key)
        if not isinstance(value, bool):
            self._wrong(key, value, "true or false")
        return value is True

    def share(self, key: str, *, least_allowed: bool) -> Fraction:
        """A share of a budget."""
        value = self._value(key)
        if _is_number(value) and 0 <= value < 1 and (least_allowed or value > 0):
            return Fraction(value)
        self._wrong(key, value, "a number from 0 to below 1" if least_allowed else "a number between 0 and 1")
        return Fraction(1, 2)

    def suppression(self) -> Fraction | None:
        """The probability of suppression, or None."""
        if "zero_suppression_chance" not in self.values:
            return None
        return self.share("zero_suppression_chance", least_allowed=True) or None

    def mechanism(self) -> Mechanism:
        """The mechanism of the noise."""
        value = self._value("privacy_defn")
        if isinstance(value, str) and value in _MECHANISMS:
            return _MECHANISMS[value]
        self._wrong("privacy_defn", value, "'zcdp' or 'puredp'")
        return Mechanism.DISCRETE_GAUSSIAN

    def runs(self) -> tuple[str, ...]:
        """The runs that are switched on."""
        # The reader is checked but not used, because data are always read in the published layout.
        if (reader := self._value("reader")) not in ("csv", "cef"):
            self._wrong("reader", reader, "'csv' or 'cef'")
        runs = tuple(run for run, key in (("US", "run_us"), ("PR", "run_pr")) if self.flag(key))
        if not runs and "run_us" in self.values and "run_pr" in self.values:
            self.problems.append("'run_us' and 'run_pr' are both false. Make at least one true.")
        return runs

    def states(self) -> tuple[str, ...]:
        """The states of the US run."""
        value = self._value("state_filter_us")
        if not isinstance(value, list) or not value or not all(isinstance(state, str) for state in value):
            self._wrong("state_filter_us", value, "a list of states, 2 digits each")
            return ()
        unknown = sorted({state for state in value if state not in STATES})
        # A repeated state would do no harm, but another one was probably meant.
        twice = sorted({state for state in value if value.count(state) > 1})
        if unknown:
            self.problems.append(f"'state_filter_us' has {some(unknown)}, which are no states. Remove them.")
        if twice:
            self.problems.append(f"'state_filter_us' has {some(twice)} more than once. Keep one of each.")
        return tuple(sorted(value))

    def budgets(self, runs: tuple[str, ...], table: str = "p") -> dict[Level, Fraction]:
        """Budgets of all levels of the runs: each 0 or more, and in each run at least one above 0."""
        budgets: dict[Level, Fraction] = {}
        for run in runs:
            for geography in GEOGRAPHIES[run]:
                for level in LEVELS:
                    key = budget_key(geography, level, table)
                    budgets[geography, level] = self._budget(key, self._value(key))
            if not any(budgets[geography, level] for geography in GEOGRAPHIES[run] for level in LEVELS):
                self.problems.append(f"every budget of the {run} run is 0. Give at least one level a budget.")
        return budgets

    def _budget(self, key: str, value: Any) -> Fraction:
        if value == _Constant("Infinity"):
            self.infinite = True
            self.problems.append(
                f"'{key}' is infinite: counts without noise protect nobody, and no ledger pays for them. Give it a "
                "finite budget. Tables without noise, to verify an implementation, are made by --no-noise."
            )
        elif _is_number(value) and value >= 0:
            return Fraction(value)
        else:
            self._wrong(key, value, "a number, 0 or more")
        # Above 0, so that a run with one wrong budget is not also reported as having none.
        return Fraction(1)

    def thresholds(self, runs: tuple[str, ...]) -> dict[Level, tuple[int, int, int]]:
        """The three thresholds of every level of the runs."""
        lists = self.threshold_lists(runs, "thresholds_p", 3)
        return {place: (three[0], three[1], three[2]) for place, three in lists.items()}

    def threshold_lists(self, runs: tuple[str, ...], name: str, n: int) -> dict[Level, tuple[int, ...]]:
        """The `n` non-decreasing thresholds of every level of the runs, under a key."""
        value = self._value(name)
        wanted = {
            f"({geography}, {level})": (geography, level)
            for run in runs
            for geography in GEOGRAPHIES[run]
            for level in LEVELS
        }
        known = {f"({g}, {level})" for run in GEOGRAPHIES for g in GEOGRAPHIES[run] for level in LEVELS}
        if not isinstance(value, dict):
            self._wrong(name, value, "an object such as {'(USA, 1)': [5, 10, 20]}")
            return {}
        lists: dict[Level, tuple[int, ...]] = {}
        for key, place in wanted.items():
            if key not in value:
                self.problems.append(f"'{name}' lacks '{key}'. Add it.")
                continue
            lists[place] = self._rising(f"{name} {key}", value[key], n)
        if unknown := sorted(set(value) - known):
            self.problems.append(f"'{name}' has unknown key(s) {some(unknown)}. Remove them.")
        return lists

    def _rising(self, key: str, value: Any, n: int) -> tuple[int, ...]:
        # A threshold may be a fraction or negative: it is compared with noisy counts.
        numbers = isinstance(value, list) and all(
            _is_number(x) and abs(x) <= LARGEST_THRESHOLD for x in value
        )
        if not numbers or len(value) != n or sorted(value) != value:
            words = {1: "exactly one number", 3: "exactly three non-decreasing numbers"}[n]
            self._wrong(key, value, f"{words} (another one would add a detail that does not exist)")
            return (0,) * n
        # An integer count is at least x exactly if it is at least ceil(x).
        return tuple(-int(-x // 1) for x in value)

    def _wrong(self, key: str, value: Any, wanted: str) -> None:
        if key in self.values or " " in key:
            shown = str(value) if isinstance(value, Fraction) else repr(value)
            self.problems.append(f"'{key}' is {shown:.80}, wanted {wanted}.")
