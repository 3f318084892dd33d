"""Every `raise` that can be reached after the spend is listed with the reason why it cannot be known before.

`raises_after_spend.toml` gives each its own reason. A key is `module:function:code` (the class of the error where it
has no code of its own), and how many such raises the function has, where they are several. The file also says, in
words, which calls of libraries can fail then, and what happens.

What can be reached is read off the source, rather too much than too little. A plain name is what its module defines or
imports under that name. An attribute `.name` may be the method or property `name` of any class that some reachable
function names. A class stands for its `__init__`, `__post_init__`, `__enter__` and `__exit__`.
"""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.source_trees import trees

REGISTER = Path(__file__).with_name("raises_after_spend.toml")
PACKAGE = "tallyveil."
ROOTS = (
    "products.topdown.run.run:_Release.release",
    "products.topdown.run.run:_Release.check",
    "postprocess.intervals.job:PlannedIntervals.do",
    "products.safetab.run.run:_SafetabWork.release",
    "products.safetab.run.run:_SafetabWork.check",
    "products.safetab.run.groups:_GroupsWork.release",
    "products.safetab.run.groups:_GroupsWork.check",
    "products.safetab.run.households:_HouseholdsWork.release",
    "products.safetab.run.households:_HouseholdsWork.check",
    "products.safetab.run.households:tables_of_households",
    "products.safetab.public.household_tables:write_household_tables",
    "products.safetab.public.household_tables:check_household_tables",
    "products.safetab.public.tables:require_passed",
    "products.lattice.run.run:_TableWork.release",
    "products.lattice.run.run:_TableWork.check",
    "products.lattice.confidential:release_table",
    "products.lattice.confidential:restricted_table",
    "subspace.exact.sampler:TrialSampler.draw",
    "subspace.exact.mixture:MixtureSampler.draw",
    "subspace.exact.partial_sums:PartialSumsProposal.trials",
    "subspace.exact.redraws:RedrawingSampler.draw",
    "subspace.nonnegative:nearest_nonnegative",
    "subspace.noise_plan:NoisePlan.draw",
    "runs.once:require_one_spend",
    "runs.once:_manifest",
    "runs.once:_remove_half_written",
    "runs.folder:RunFolder.seal",
    "runs.folder:RunFolder.publish",
    "runs.folder:RunFolder.remove_private",
    "runs.cluster.executor:RayExecutor.serve",
    "runs.cluster.executor:RayExecutor.share",
    "runs.cluster.executor:RayExecutor.completed",
    "runs.cluster.executor:RayExecutor.__exit__",
    "runs.cluster.worker:ClusterWorker.open",
    "runs.cluster.worker:ClusterWorker.do",
    "products.topdown.run.on_worker:open_run",
    "postprocess.estimation:open_estimate",
)
"""What runs once the spend is in the ledger; all that it calls follows. Executors, openers and
samplers are called by names that the source does not show."""


ON_MAKING = ("__init__", "__post_init__", "__enter__", "__exit__")


class Place(NamedTuple):
    """A function, method or class."""

    module: str
    name: str


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All parts but expressions, in which nothing is defined."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += [child for child in ast.iter_child_nodes(one) if not isinstance(child, ast.expr)]


class CallGraph:
    """Functions and classes of the package, and what each refers to."""

    def __init__(self) -> None:
        self.nodes: dict[Place, ast.AST] = {}
        self.names: dict[str, dict[str, Place]] = {}
        self._parts: dict[Place, list[ast.AST]] = {}

    def reachable(self, roots: set[Place]) -> set[Place]:
        """Everything that the roots may call, themselves included."""
        found: set[Place] = set()
        asked: set[str] = set()
        offered: dict[str, list[Place]] = {}
        waiting = list(roots)
        while waiting:
            place = waiting.pop()
            self._read(place.module)
            if place in found or place not in self.nodes:
                continue
            found.add(place)
            names, attributes = self._used(place)
            waiting += [self._resolved(place.module, name) for name in names]
            for name in attributes - asked:
                waiting += offered.get(name, [])
            asked |= attributes
            for name, method in self._methods(place):
                offered.setdefault(name, []).append(method)
                waiting += [method] if name in asked else []
        return found

    def raises(self, place: Place) -> list[ast.Raise]:
        """The `raise` statements of a function itself that make an exception, not those that hand one on."""
        return [one for one in self._own(place) if isinstance(one, ast.Raise) and one.exc is not None]

    def _read(self, module: str) -> None:
        """Take in a module of the package, once."""
        if module in self.names:
            return
        names = self.names[module] = {}
        where = "/".join(module.split(".")[1:])
        tree = trees().get(f"{where}.py") or trees().get(f"{where}/__init__.py".removeprefix("/"))
        if tree is None:  # a folder of data
            return

        def visit(node: ast.AST, prefix: str) -> None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.FunctionDef | ast.ClassDef):
                    place = Place(module, prefix + child.name)
                    self.nodes[place] = child
                    if not prefix:
                        names[child.name] = place
                    visit(child, f"{place.name}.")
                elif isinstance(child, ast.ImportFrom) and (child.module or "").startswith("tallyveil"):
                    for alias in child.names:
                        names[alias.asname or alias.name] = Place(child.module or "", alias.name)
                elif not isinstance(child, ast.expr):
                    visit(child, prefix)

        visit(tree, "")

    def _resolved(self, module: str, name: str) -> Place:
        """Where a name of a module is defined, through the modules that hand it on."""
        place = Place(module, name)
        for _ in range(5):
            self._read(place.module)
            if place in self.nodes:
                return place
            place = self.names.get(place.module, {}).get(place.name.split(".")[0], place)
        return place

    def _own(self, place: Place) -> list[ast.AST]:
        """Parts of a function that are not in a function inside it."""
        if place not in self._parts:
            found = self._parts[place] = []
            waiting = list(ast.iter_child_nodes(self.nodes[place]))
            while waiting:
                node = waiting.pop()
                if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    found.append(node)
                    waiting += ast.iter_child_nodes(node)
        return self._parts[place]

    def _used(self, place: Place) -> tuple[set[str], set[str]]:
        node = self.nodes[place]
        own = self._own(place)
        names = {one.id for one in own if isinstance(one, ast.Name)}
        inner = {f"{place.name}.{one.name}" for one in statements(node) if isinstance(one, ast.FunctionDef)}
        if isinstance(node, ast.ClassDef):
            inner = {f"{place.name}.{name}" for name in ON_MAKING}
        attributes = {one.attr for one in own if isinstance(one, ast.Attribute)}
        return names | inner, attributes

    def _methods(self, place: Place) -> list[tuple[str, Place]]:
        """Methods of a class by name; none of a function."""
        node = self.nodes[place]
        if not isinstance(node, ast.ClassDef):
            return []
        inside = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.FunctionDef))
        return [(child.name, Place(place.module, f"{place.name}.{child.name}")) for child in inside]


def place_of(text: str) -> Place:
    module, name = text.split(":")
    return Place(PACKAGE + module, name)


def key_of(place: Place, one: ast.Raise) -> str:
    made = one.exc
    codes = [word.value for word in getattr(made, "keywords", []) if word.arg == "code"]
    code = codes[0].value if codes and isinstance(codes[0], ast.Constant) else None
    shown = str(code) if code else ast.unparse(made.func if isinstance(made, ast.Call) else made)
    return f"{place.module.removeprefix(PACKAGE)}:{place.name}:{shown}"


@pytest.fixture(scope="module")
def found() -> Counter[str]:
    graph = CallGraph()
    roots = {place_of(text) for text in ROOTS}
    reached = graph.reachable(roots)
    assert roots <= reached, f"these roots were renamed; mend ROOTS: {roots - reached}"
    return Counter(key_of(place, one) for place in reached for one in graph.raises(place))


@pytest.fixture(scope="module")
def reasons() -> dict[str, str]:
    register = tomllib.loads(REGISTER.read_text(encoding="utf-8"))
    assert set(register) == {"library_calls", "raises"}
    reasons: dict[str, str] = register["raises"]
    return reasons


@pytest.fixture(scope="module")
def listed(reasons: dict[str, str]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for entry in reasons:
        key, _, times = entry.partition(" x")
        assert key not in counted, f"{key} stands twice"
        counted[key] = int(times or 1)
    return counted


def test_every_raise_has_a_reason_of_its_own(reasons: dict[str, str]) -> None:
    shared = [why for why, times in Counter(reasons.values()).items() if times > 1 or len(why) < 40]
    assert not shared, f"say it of each by itself: {shared}"


def test_every_raise_after_the_spend_has_its_reason(found: Counter[str], listed: Counter[str]) -> None:
    new = sorted(f"{key} x{n}" for key, n in (found - listed).items())
    assert not new, f"can these be raised before the spend? If not, say why in {REGISTER.name}: {new}"


def test_no_reason_is_kept_for_a_raise_that_is_gone(found: Counter[str], listed: Counter[str]) -> None:
    gone = sorted(f"{key} x{n}" for key, n in (listed - found).items())
    assert not gone, f"remove these from {REGISTER.name}: {gone}"
