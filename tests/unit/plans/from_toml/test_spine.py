"""[spine] of a release file: presets, cuts, groups by variance, bypassing."""

from fractions import Fraction

import pytest

from tallyveil.budget.caps import Reference
from tallyveil.budget.spine.presets import load_spine_preset, spine_preset_names
from tallyveil.budget.spine.regroup import Measure
from tallyveil.errors import BudgetError, ConfigError
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.optimise import Branch, CutByEntities
from tallyveil.geography.steps import FanOutLimit
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.inputs import Regroup

LEVELS = {
    "us": '"US", "State", "County", "Tract", "Block_Group", "Block"',
    "state-rooted": '"State", "County", "Tract", "Block_Group", "Block"',
}


@pytest.fixture
def with_spine(small_release):
    """The small release's file on census geolevels, with a [spine]."""

    def write(spine: str, made=None, rooted="us"):
        text = small_release.read_text()
        start, stop = text.index('geolevels = ["Region"'), text.index("[schema]")
        lengths = "[0, 2, 5, 11, 12, 15]" if rooted == "us" else "[2, 5, 11, 12, 15]"
        text = f"{text[:start]}geolevels = [{LEVELS[rooted]}]\nprefix_lengths = {lengths}\n\n{text[stop:]}"
        names = made or [name.strip(' "') for name in LEVELS[rooted].split(",")]
        shares = "".join(f'{name} = "1/{len(names)}"\n' for name in names)
        start, stop = text.index("[strategy.geolevels]"), text.index('[strategy.queries."*"]')
        text = f"{text[:start]}[strategy.geolevels]\n{shares}{text[stop:]}"
        small_release.write_text(
            text.replace('geolevels = ["Region"]', f'geolevels = ["{names[0]}"]') + spine
        )
        return small_release

    return write


@pytest.mark.parametrize("name", spine_preset_names())
def test_every_production_spine_can_be_named(with_spine, name):
    preset = load_spine_preset(name)
    rooted = "us" if name.endswith("-us") else "state-rooted"
    spine = f'[spine]\nentities = "entities.parquet"\npreset = "{name}"\nfamilies = ["ward"]\n'
    plan = load_plan(with_spine(spine, preset.result, rooted))
    assert plan.spine is not None
    assert plan.spine.steps == preset.steps
    assert plan.spine.families == (*preset.families, "ward")
    assert plan.spine.bypassing is BypassRule.SINGLE_CHILD
    assert plan.geolevels == preset.result
    assert plan.to_mapping()["spine"]["preset"] == name


def test_parts_keep_the_geolevel_that_a_preset_cuts(with_spine):
    made = ["US", "State", "State_Part", "County", "Tract", "Block_Group", "Block"]
    spine = (
        '[spine]\nentities = "e"\npreset = "redistricting-persons-us"\nparts = "State_Part"\nbypass = false\n'
    )
    plan = load_plan(with_spine(spine, made))
    assert plan.spine is not None
    assert plan.geolevels == tuple(made)
    assert plan.spine.steps[0] == Branch("tribal_area", "State", "AIAN", None, "State_Part")
    assert plan.spine.bypassing is None
    assert "bypassing" not in plan.to_mapping()["spine"]


def test_steps_of_ones_own(with_spine):
    spine = """[spine]
entities = "e"
families = ["ward"]
bypass = true
[[spine.steps]]
kind = "cut_by_entities"
families = ["ward"]
geolevel = "County"
name = "Prim"
[spine.regroup]
geolevel = "Block_Group"
cutoff = 60
aim = { ward = "2", Tract = "1", Block_Group = "1/2" }
"""
    made = ["State", "County", "Prim", "Tract", "Block_Group", "Block"]
    plan = load_plan(with_spine(spine, made, "state-rooted"))
    assert plan.spine is not None
    assert plan.spine.steps == (CutByEntities(("ward",), "County", "Prim"),)
    weights = (("ward", Fraction(2)), ("Tract", Fraction(1)), ("Block_Group", Fraction(1, 2)))
    assert plan.spine.regroup == Regroup("Block_Group", FanOutLimit(60), weights, Measure.SUM)
    mapping = plan.to_mapping()["spine"]
    assert mapping["steps"][0]["kind"] == "cut_by_entities"
    assert mapping["regroup"]["aim"] == {"ward": "2", "Tract": "1", "Block_Group": "1/2"}
    assert [mapping["regroup"][key] for key in ("most_loss", "reference", "may_worsen")] == [
        "1/20",
        "steps",
        [],
    ]
    assert mapping["bypassing"] == "single_child"


def test_limits_of_groups_chosen_by_variance(with_spine):
    """The families of the preset join the aim, unless they may worsen."""
    spine = """[spine]
entities = "e"
preset = "redistricting-units-state-rooted"
[spine.regroup]
geolevel = "Block_Group"
most_loss = "1/10"
reference = "geography"
may_worsen = ["place", "zcta"]
aim = { Tract = "1" }
"""
    plan = load_plan(with_spine(spine, rooted="state-rooted"))
    assert plan.spine is not None
    regroup = plan.spine.regroup
    assert regroup is not None
    assert (regroup.most_loss, regroup.reference, regroup.may_worsen) == (
        Fraction(1, 10),
        Reference.GEOGRAPHY,
        ("place", "zcta"),
    )
    assert regroup.aim == (("Tract", 1), ("tribal_area", 1), ("county_subdivision", 1))


@pytest.mark.parametrize(
    ("spine", "kind", "code", "says"),
    [
        ('entities = "e"\npreset = "dhc"\n', BudgetError, "budget", "no spine preset"),
        ('entities = "e"\npreset = "dhc-state-rooted"\n', ConfigError, "unknown-geolevel", "starts from State"),
        (
            'entities = "e"\npreset = "dhc-us"\n[[spine.steps]]\nkind = "cut_by_entities"\nfamilies = ["prim"]\n'
            'geolevel = "County"\nname = "Prim"\n',
            ConfigError, "bad-key-or-value", "either preset or steps",
        ),
        ('preset = "dhc-us"\n', ConfigError, "bad-key-or-value", "entity table"),
        ('entities = "e"\n', ConfigError, "bad-key-or-value", "entity table"),
        (
            'entities = "e"\nfamilies = ["ward"]\nparts = "P"\n',
            ConfigError, "bad-key-or-value", "given together with a preset",
        ),
        ("bypass = false\n", ConfigError, "bad-key-or-value", "the table has no effect"),
        (
            'entities = "e"\nfamilies = ["ward"]\n[spine.regroup]\ngeolevel = "Block_Group"\naim = { place = "1" }\n',
            ConfigError, "unknown-entity", "place",
        ),
        (
            'entities = "e"\nfamilies = ["ward"]\n[spine.regroup]\ngeolevel = "ward"\naim = { ward = "1" }\n',
            ConfigError, "unknown-entity", "names ward",
        ),
        (
            'entities = "e"\nfamilies = ["ward"]\n[spine.regroup]\ngeolevel = "Tract"\naim = { ward = 0.5 }\n',
            ConfigError, "bad-key-or-value", "ward",
        ),
        (
            'entities = "e"\nfamilies = ["ward"]\n[spine.regroup]\ngeolevel = "Tract"\naim = { ward = "1" }\n'
            'may_worsen = ["ward"]\n',
            ConfigError, "bad-key-or-value", "aim and may_worsen both name ward",
        ),
        (
            'entities = "e"\nfamilies = ["ward"]\n[spine.regroup]\ngeolevel = "Tract"\naim = { ward = "1" }\n'
            'most_loss = "-1/20"\n',
            ConfigError, "bad-key-or-value", "wanted 0 or more",
        ),
        *(
            (
                'entities = "e"\nfamilies = ["ward"]\n[spine.regroup]\ngeolevel = "Tract"\n'
                f'aim = {{ ward = "{weight}" }}\n{more}',
                BudgetError, "budget", says,
            )
            for weight, more, says in (
                ("1e400", "", "the weight 10..400; wanted a number above 0"),
                ("1e-400", "", "the weight 10..-400; wanted"),
                ("0", "", "the weight 0; wanted"),
                ("1", 'most_loss = "1e309"\n', "may grow by 10..309"),
            )
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(with_spine, spine, kind, code, says):
    with pytest.raises(kind, match=says) as caught:
        load_plan(with_spine("[spine]\n" + spine))
    assert caught.value.code == code


def test_parts_need_a_branch(with_spine):
    spine = '[spine]\nentities = "e"\npreset = "dhc-state-rooted"\nparts = "P"\n'
    with pytest.raises(ConfigError, match="no step of kind branch"):
        load_plan(with_spine(spine, rooted="state-rooted"))


def test_the_bypass_rule_follows_the_mechanism_also_under_a_preset(with_spine):
    preset = load_spine_preset("redistricting-persons-us")
    spine = '[spine]\nentities = "e"\npreset = "redistricting-persons-us"\nmost_children = 150\n'
    path = with_spine(spine, preset.result)
    text = (
        path.read_text()
        .replace("discrete_gaussian", "discrete_laplace")
        .replace('rho = "2"', 'epsilon = "2"')
    )
    path.write_text(text)
    plan = load_plan(path)
    assert plan.spine is not None
    assert plan.spine.bypassing is BypassRule.PURE_DP
    assert plan.to_mapping()["spine"]["most_children"] == 150


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
def test_the_rule_that_spares_every_query_is_named(with_spine, mechanism):
    preset = load_spine_preset("redistricting-persons-us")
    spine = '[spine]\nentities = "e"\npreset = "redistricting-persons-us"\nbypass = "every_query"\n'
    path = with_spine(spine, preset.result)
    unit = "rho" if mechanism == "discrete_gaussian" else "epsilon"
    path.write_text(
        path.read_text().replace("discrete_gaussian", mechanism).replace('rho = "2"', f'{unit} = "2"')
    )
    plan = load_plan(path)
    assert plan.spine is not None
    assert plan.spine.bypassing is BypassRule.EVERY_QUERY
    assert plan.to_mapping()["spine"]["bypassing"] == "every_query"


def test_groups_by_the_sum_of_distances_are_a_step(with_spine):
    step = '[[spine.steps]]\nkind = "group_by_distance"\nfamilies = ["ward"]\ngeolevel = "Block_Group"\n'
    spine = '[spine]\nentities = "e"\nfamilies = ["ward"]\n' + step + 'children = "Block"\nmeasure = "sum"\n'
    path = with_spine(spine, ["State", "County", "Tract", "Block_Group", "Block"], "state-rooted")
    assert load_plan(path).to_mapping()["spine"]["steps"][0]["measure"] == "sum"
    path.write_text(path.read_text().replace('measure = "sum"', 'measure = "sum"\ngains_first = true'))
    with pytest.raises(ConfigError, match="gains_first"):
        load_plan(path)


def test_a_limit_on_bypassing_needs_bypassing(with_spine):
    spine = '[spine]\nentities = "e"\nfamilies = ["ward"]\nmost_children = 3\n'
    path = with_spine(spine, ["State", "County", "Tract", "Block_Group", "Block"], "state-rooted")
    with pytest.raises(ConfigError, match="bypass = true"):
        load_plan(path)
