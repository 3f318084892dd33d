"""Programme files: what they may name, and how the mistakes of all their files are shown."""

from pathlib import Path

import pytest

from tallyveil.errors import BudgetError, ConfigError, StoreError, TallyveilError
from tallyveil.plans.from_toml import load
from tallyveil.products.dhc.public.from_toml import load_programme

MADE = Path("made")


def write(folder: Path, *releases: tuple[str, str], head: str = '[programme]\nname = "two"\n') -> Path:
    """A programme file with these names and files."""
    tables = [f"[[releases]]\nname = {name!r}\nfile = {file!r}\n" for name, file in releases]
    path = folder / "programme.toml"
    path.write_text(head + "".join(tables))
    return path


@pytest.fixture
def folder(small_release):
    """The folder of the small release file, with a second file for a release of the same people."""
    text = small_release.read_text()
    (small_release.parent / "second.toml").write_text(text.replace('name = "small"', 'name = "again"'))
    return small_release.parent


BOTH = ("first", "release.toml"), ("second", "second.toml")


def test_the_plan_has_the_releases_in_order(folder):
    plan = load_programme(write(folder, *BOTH), MADE)
    assert plan.name == "two"
    assert [(one.name, one.plan.name, one.reads) for one in plan.releases] == [
        ("first", "small", ()),
        ("second", "again", ()),
    ]
    assert plan.digest() == load_programme(write(folder, *BOTH)).digest()
    assert plan.digest() != load_programme(write(folder, *reversed(BOTH))).digest()


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "..",
        "a*b",
        "",
        " a",
        "a\\b",
        "ü",
        "private",
        "Private",
        "CON",
        "lpt1",
        "x" * 61,
        "a.b",
        "a\x1b",
    ],
)
def test_names_that_are_no_folders_are_refused(folder, name):
    head = '[programme]\nname = "two"\n'
    path = folder / "programme.toml"
    escaped = name.replace("\\", "\\\\").replace("\x1b", "\\u001b")
    path.write_text(f'{head}[[releases]]\nname = "{escaped}"\nfile = "release.toml"\n')
    with pytest.raises(ConfigError, match=r"releases\[1\]\.name") as caught:
        load_programme(path, MADE)
    assert caught.value.code == "bad-key-or-value"


@pytest.mark.parametrize("other", ["first", "FIRST"])
def test_two_releases_have_two_names(folder, other):
    with pytest.raises(ConfigError, match="named twice"):
        load_programme(write(folder, BOTH[0], (other, "second.toml")), MADE)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[programme]\nname = "x"\n', "releases: is required and absent"),
        ('[programme]\nname = "x"\nreleases = []\n', "unknown key|releases"),
        (
            '[programme]\nname = "x"\nout = "y"\n[[releases]]\nname = "a"\nfile = "b"\n',
            "programme.out: unknown key",
        ),
        ('[[releases]]\nname = "a"\nfile = "b"\n', "programme: is required"),
    ],
)
def test_mistakes_of_the_programme_file(tmp_path, text, found):
    path = tmp_path / "programme.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=found):
        load_programme(path, MADE)


def test_a_file_that_is_missing_is_named_with_its_release(folder):
    with pytest.raises(StoreError, match=r"release 'second' \(none\.toml\) of the programme") as caught:
        load_programme(write(folder, BOTH[0], ("second", "none.toml")), MADE)
    assert caught.value.code == "input-missing"


def test_one_wrong_release_keeps_its_code(folder):
    text = (folder / "second.toml").read_text()
    (folder / "second.toml").write_text(text.replace('query = "home"', 'query = "house"'))
    with pytest.raises(TallyveilError, match="release 'second'") as caught:
        load_programme(write(folder, *BOTH), MADE)
    with pytest.raises(type(caught.value)) as alone:
        load.load_plan(folder / "second.toml")
    assert alone.value.code == caught.value.code
    assert str(alone.value) in str(caught.value)


def test_all_wrong_releases_are_shown_at_once(folder):
    (folder / "second.toml").write_text("[release")
    with pytest.raises(ConfigError, match="2 releases") as caught:
        load_programme(write(folder, *BOTH, ("third", "none.toml")), MADE)
    assert caught.value.code == "programme-files"
    assert "release 'second' (second.toml)" in str(caught.value)
    assert "release 'third' (none.toml)" in str(caught.value)


def test_releases_are_stated_under_one_relation(folder):
    text = (folder / "second.toml").read_text()
    (folder / "second.toml").write_text(text.replace('"bounded"', '"unbounded"'))
    assert '"bounded"' in text
    with pytest.raises(BudgetError, match="different neighbours"):
        load_programme(write(folder, *BOTH), MADE)


def agreeing(folder, **fields):
    """The second release, agreeing with an earlier one."""
    text = "".join(f"{name} = {value!r}\n" for name, value in fields.items())
    with (folder / "second.toml").open("a") as file:
        file.write(f"[[agreement]]\n{text}")


def test_a_release_reads_earlier_ones_by_name(folder):
    agreeing(folder, name="first", query="age", theirs="age")
    agreeing(folder, name="homes", release="first", query="home", theirs="home")
    agreeing(folder, name="before", path="old", query="home", theirs="home")
    plan = load_programme(write(folder, *BOTH), MADE)
    first, second = plan.releases
    assert (first.reads, second.reads) == ((), ("first",))
    assert first.alone == first.plan
    own = MADE.absolute() / "first"
    assert [item.path for item in second.plan.agreement] == [own, own, folder / "old"]
    assert [item.name for item in second.alone.agreement] == ["before"]
    with pytest.raises(
        ConfigError, match=r"'first' has no path.*none, for this release is the first"
    ) as caught:
        load_programme(write(folder, *reversed(BOTH)), MADE)
    assert caught.value.code == "unknown-release"


def test_two_agreements_with_one_name_are_refused(folder):
    agreeing(folder, name="first", query="age", theirs="age")
    agreeing(folder, name="first", query="home", theirs="home")
    with pytest.raises(ConfigError, match="'first' is there more than once"):
        load_programme(write(folder, *BOTH), MADE)


@pytest.mark.parametrize(("theirs", "code"), [("home", "agreement-labels"), ("nothing", "schema")])
def test_labels_are_compared_before_anything_is_made(folder, theirs, code):
    agreeing(folder, name="first", query="age", theirs=theirs)
    with pytest.raises(TallyveilError, match="release 'second'") as caught:
        load_programme(write(folder, *BOTH), MADE)
    assert caught.value.code == code
