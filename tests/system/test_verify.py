"""`tallyveil verify`: a release is proved from its files, and a forger's edits are found although every digest fits."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from tests.forgery.edits import Edit, all_edits, of_draws, of_product, of_programme, of_publication
from tests.forgery.forger import changed_json, read, reseal, write
from tests.forgery.run import PRODUCTS, made, made_draws, made_from_releases, made_programme, outcome
from tests.samples import few
from tests.signing import PLACES, sign
from tests.system.test_draws import with_few_sweeps

import tallyveil
from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.signatures import signature_path
from tallyveil.storage.json_files import digest_of


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    return made(tmp_path_factory.mktemp("forged"))


@pytest.fixture(scope="module")
def tables(release, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("published") / "csv"
    tallyveil.publish_csv(release, out)
    return out


CHOSEN = {
    "privacy.classical_epsilon", "body.sizes.records", "body.plan.delta", "the statement", "variances of the event",
    "geography.parquet: a code", "a script", "body.solver.Block.rounding_widened",
}  # fmt: skip
"""One edit of every kind; the others are nightly, because each takes half a second."""


def edits(release: Path):
    return [edit for edit in all_edits(release) if edit.name in CHOSEN]


def test_a_release_is_proved_from_its_files(release, command):
    verdict = tallyveil.verify(release)
    assert verdict.holds, verdict.wrong
    assert verdict.guarantee == tallyveil.open(release).guarantee.statement
    assert any("guarantee" in line for line in verdict.proved)
    said = json.loads(command("verify", release, "--json"))
    assert said == verdict.to_mapping()


def test_every_number_is_computed_again_when_asked(release):
    verdict = tallyveil.open(release).verify(whole=True)
    assert verdict.holds, verdict.wrong
    assert "the counts are the estimate from the measurements" in verdict.proved


def test_edits_with_new_digests_are_found(release, tmp_path):
    said = {edit.name: (outcome(release, edit, tmp_path), edit) for edit in edits(release)}
    assert {
        name: found for name, (found, edit) in said.items() if found != ("unseen" if edit.unseen else "found")
    } == {}
    assert said.keys() == CHOSEN


@pytest.fixture(scope="module")
def products(tmp_path_factory) -> dict[str, Path]:
    """A small release of each product beside the main one."""
    return {name: make(tmp_path_factory.mktemp(name)) for name, make in PRODUCTS.items()}


def not_as_expected(
    root: Path, edits: Iterable[Edit], place: Path, releases: tuple[Path, ...] = ()
) -> list[str]:
    """Edits that are not found, or found although nobody could."""
    outcomes = [(edit, outcome(root, edit, place, releases)) for edit in edits]
    return [edit.name for edit, said in outcomes if said != ("unseen" if edit.unseen else "found")]


@pytest.mark.parametrize("name", PRODUCTS)
def test_edits_of_other_products_are_found(products, tmp_path, name):
    verdict = tallyveil.verify(products[name])
    assert verdict.holds, verdict.wrong
    # One in so many, so that the test takes seconds; the nightly row has all.
    assert not_as_expected(products[name], list(of_product(products[name], name))[::44], tmp_path) == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_edit_of_other_products_is_found_or_nobody_could(products, tmp_path, name):
    assert not_as_expected(products[name], of_product(products[name], name), tmp_path) == []


@pytest.fixture(scope="module")
def programme(tmp_path_factory) -> Path:
    return made_programme(tmp_path_factory.mktemp("programme"))


def require_counted(edits):
    """Refuse a table of the documentation that counts other edits."""
    numbers: dict[str, list[int]] = {}
    for edit in edits:
        row = numbers.setdefault(edit.place, [0, 0, 0, 0])
        row[0] += 1
        row[3 if edit.unseen else 2 if edit.whole else 1] += 1
    page = (Path(__file__).parents[2] / "docs" / "verify.md").read_text(encoding="utf-8")
    rows = [f"| {place} | {' | '.join(map(str, row))} |" for place, row in numbers.items()]
    assert [row for row in rows if row not in page] == []


@pytest.mark.nightly
def test_every_edit_of_what_is_made_from_releases_is_found(release, programme, tmp_path):
    require_counted(of_programme(programme))
    assert not_as_expected(programme, of_programme(programme), tmp_path) == []
    for derived in made_from_releases(release, programme, tmp_path):
        require_counted(derived.edits)
        assert not_as_expected(derived.root, derived.edits, tmp_path / "copy", derived.releases) == []


@pytest.mark.nightly
def test_every_edit_of_the_suite_is_found_or_nobody_could(release, tmp_path):
    outcomes = [(edit, outcome(release, edit, tmp_path)) for edit in all_edits(release)]
    wrong = [edit.name for edit, found in outcomes if found == ("found" if edit.unseen else "unseen")]
    assert wrong == []
    assert sum(found == "found" for _, found in outcomes) > 200


def test_the_table_of_the_documentation_counts_the_edits_of_the_suite(release, tables, products, draws):
    """How they are found, the nightly rows and `python -m tests.forgery.run` say."""
    of_products = (edit for name, root in products.items() for edit in of_product(root, name))
    require_counted([*all_edits(release), *of_publication(tables), *of_products, *of_draws(draws[0])])


@pytest.fixture(scope="module")
def few_sweeps():
    """Chains that are soon compared, and need not agree."""
    with pytest.MonkeyPatch.context() as patch:
        with_few_sweeps(patch)
        yield


@pytest.fixture(scope="module")
def draws(release, few_sweeps, tmp_path_factory) -> tuple[Path, dict[str, Path]]:
    return made_draws(release, tmp_path_factory.mktemp("drawn"))


def test_draws_are_proved_from_their_release_and_public_files(release, draws, command):
    root, public = draws
    files = ("--covariates", public["covariates"], "--earlier-census", public["earlier_census"])
    said = json.loads(command("verify", root, "--release", release, *files, "--whole", "--json"))
    assert said["holds"], said["wrong"]
    assert (len(said["proved"]), len(said["compared"]), said["not_looked_at"]) == (5, 2, [])
    verdict = tallyveil.verify(root, releases=[release])
    assert verdict.holds
    assert "--covariates and --earlier-census" in " ".join(verdict.not_looked_at)
    assert "--whole" in " ".join(verdict.not_looked_at)
    alone = tallyveil.verify(root)
    assert alone.holds
    assert alone.proved == ()
    assert "--release" in " ".join(alone.not_looked_at)
    for folder, releases in ((root, [release, release]), (root, []), (release, [])):
        with pytest.raises(ConfigError) as caught:
            tallyveil.verify(folder, releases=releases, covariates=public["covariates"])
        assert caught.value.code == "bad-flag"


def _not_utf8(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"draws", b"dr\xe4ws"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("spoil", "file"), [(_not_utf8, "README.txt"), (_pipe, "README.txt"), (_pipe, "*.parquet")]
)
def test_a_file_of_draws_that_cannot_be_read_is_wrong(release, draws, tmp_path, spoil, file):
    copy = Path(shutil.copytree(draws[0], tmp_path / "copy"))
    spoil(next(copy.rglob(file)))
    verdict = tallyveil.verify(copy, releases=[release])
    assert not verdict.holds
    # What is not looked at, because the files are wrong, is named.
    assert any("keep its promises" in words for words in verdict.not_looked_at) == (spoil is _pipe)


def test_chains_that_did_not_agree_are_wrong(draws, tmp_path):
    copy = Path(shutil.copytree(draws[0], tmp_path / "copy"))
    changed_json(copy / "draws.json", lambda content: content["convergence"].update(reduction=1e10))
    assert "the chains agree" in " ".join(tallyveil.verify(copy).wrong)


def not_found(release, draws, place, chosen) -> list[str]:
    root, public = draws
    return [
        edit.name
        for edit in of_draws(root)
        if chosen(edit)
        and outcome(root, edit, place, (release,), public) != ("unseen" if edit.unseen else "found")
    ]


def test_edits_of_draws_are_found(release, draws, tmp_path):
    names = {"draws.json: seed", "draws.json: misfit", "draws.json: covariates.0.centre", "a draw: count"}
    assert not_found(release, draws, tmp_path, lambda edit: edit.name in names) == []


@pytest.mark.nightly
def test_every_edit_of_draws_is_found(release, draws, tmp_path):
    assert not_found(release, draws, tmp_path, lambda edit: True) == []


@pytest.mark.nightly
def test_edits_of_tables_as_csv_are_found_with_their_release(release, tables, tmp_path):
    assert tallyveil.verify(tables, releases=[release]).holds
    outcomes = {
        edit.name: outcome(tables, edit, tmp_path, (release,)) for edit in list(of_publication(tables))[::9]
    }
    assert {name for name, found in outcomes.items() if found == "unseen"} == set()


def test_tables_alone_prove_little_and_say_so(tables):
    verdict = tallyveil.verify(tables)
    assert verdict.holds
    assert verdict.proved == ()
    assert "--release" in " ".join(verdict.not_looked_at)


def test_what_is_wrong_has_its_own_exit_code(release, tmp_path, command):
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    (copy / "report.html").write_text("<script>alert(1)</script>")
    command("verify", copy, code=10)
    with pytest.raises(StoreError, match="nothing that can be verified"):
        tallyveil.verify(tmp_path)


def test_folders_that_were_left_out_are_not_looked_at(release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    for name in ("histogram", "measurements", "microdata"):
        shutil.rmtree(copy / name)
    verdict = tallyveil.verify(copy)
    assert verdict.holds, verdict.wrong
    assert any("histogram/, which was left out" in line for line in verdict.not_looked_at)


def test_what_is_shown_of_a_guarantee_is_no_stored_sentence(release, tmp_path, command):
    """A manifest that is edited and sealed again is not believed by what shows the guarantee."""
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    edit = next(edit for edit in all_edits(release) if edit.name == "the statement")
    edit.forge(copy)
    stated = tallyveil.open(release).guarantee.statement
    assert tallyveil.open(copy).guarantee.statement == stated
    tallyveil.open(copy).report()
    page = (copy / "report.html").read_text()
    assert "0.01" not in json.loads((copy / "manifest.json").read_text())["privacy"]["exact"]
    assert "epsilon <= 0.01" not in page


HELD = {"neighbours", "mechanism", "budget_unit", "declared", "spent", "delta"}
"""Statements of a guarantee that are held to the ledger and the plan wherever a release is opened."""
SHOWING = (
    ("report", "R"),
    ("status", "R", "--json"),
    ("publish", "csv", "R", "--out", "csv"),
    ("publish", "json-stat", "R", "--out", "json-stat"),
    ("publish", "sdmx", "R", "--out", "sdmx"),
    ("explore", "R", "--out", "site"),
    ("measurements", "export", "R", "--layout", "tidy", "--out", "tidy"),
    ("ask", "R", "total", "--out", "answer.json"),
)


def otherwise(content):
    """Another guarantee: all numbers smaller, all texts changed."""
    if isinstance(content, dict):
        return {key: value if key in HELD else otherwise(value) for key, value in content.items()}
    if isinstance(content, list):
        return [otherwise(value) for value in content]
    return content / 16 if isinstance(content, float) else f"{content} (forged)"


def what_is_shown(place, command) -> dict[str, bytes]:
    """What commands say of a release and write about it, without its digest, which they quote."""
    quoted = hashlib.sha256((place / "R" / "manifest.json").read_bytes()).hexdigest().encode()
    shown = {" ".join(words): command(*words).encode() for words in SHOWING}
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.name != "manifest.json":
            content = path.read_bytes()
            if path.name == "publication.json":  # whose list has the digests of files that quote it
                content = json.dumps({**json.loads(content), "files": None}).encode()
            shown[path.relative_to(place).as_posix()] = content.replace(quoted, b"")
    return shown


@pytest.mark.nightly
def test_no_command_shows_a_guarantee_that_is_only_stated(release, tmp_path, command, monkeypatch):
    """Every number and text of the guarantee is forged, and every command shows what follows from the ledger."""
    shown = []
    for name, forge in (("as it was", dict), ("forged", otherwise)):
        copy = Path(shutil.copytree(release, tmp_path / name / "R"))
        manifest = read(copy / "manifest.json")
        write(copy / "manifest.json", {**manifest, "privacy": forge(manifest["privacy"])})
        reseal(copy)
        monkeypatch.chdir(copy.parent)
        shown.append(what_is_shown(copy.parent, command))
    assert read(copy / "manifest.json")["privacy"]["statement"].endswith("(forged)")
    assert len(shown[0]) > 200
    assert [name for name in shown[0] | shown[1] if shown[0].get(name) != shown[1].get(name)] == []


def test_numbers_of_geounits_are_those_of_the_geography(release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    changed_json(
        copy / "manifest.json",
        lambda manifest: manifest["body"]["sizes"]["geolevels"]["Town"].update(geounits=9),
    )
    reseal(copy)
    opened = tallyveil.open(copy)
    for shows in (opened.report, opened._repr_html_):
        with pytest.raises(StoreError, match=r"other numbers of geounits"):
            shows()


def test_a_site_is_verified_with_its_release(release, tmp_path):
    tallyveil.open(release).explore(tmp_path / "site")
    assert tallyveil.verify(tmp_path / "site", releases=[release]).holds
    index = tmp_path / "site" / "index.html"
    index.write_text(index.read_text() + "<script>1</script>")
    assert not tallyveil.verify(tmp_path / "site").holds


@pytest.mark.nightly
def test_a_signature_of_ssh_keygen_is_shown(release, tmp_path, command):
    """The key is one of a test; its fingerprint is the one that ssh-keygen prints."""
    if not (keygen := shutil.which("ssh-keygen")):
        pytest.skip("needs ssh-keygen")
    copy, key = Path(shutil.copytree(release, tmp_path / "copy")), tmp_path / "key"
    assert tallyveil.open(copy).signature == "unsigned"
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    for name in ("manifest.json", "report.html"):
        subprocess.run([keygen, "-q", "-Y", "sign", "-f", key, "-n", "tallyveil", copy / name], check=True)
    told = subprocess.run([keygen, "-l", "-f", key], check=True, capture_output=True, text=True).stdout
    verdict = tallyveil.verify(copy)
    assert verdict.holds, verdict.wrong
    assert verdict.signature == f"signed by {told.split()[1]}"
    with (copy / "report.html").open("a") as page:
        page.write(" ")
    assert "report.html.sig: signature does not fit" in tallyveil.verify(copy).wrong
    (copy / "manifest.json.sig").write_text(
        "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"
    )
    assert tallyveil.open(copy).signature == "signature does not fit"


@pytest.fixture(scope="module")
def unsigned_site(release, tmp_path_factory) -> Path:
    site = tmp_path_factory.mktemp("explored") / "site"
    tallyveil.open(release).explore(site)
    return site


@pytest.mark.nightly
def test_a_page_and_a_site_say_who_had_signed_when_they_were_made(release, unsigned_site, tmp_path):
    copy, site = Path(shutil.copytree(release, tmp_path / "copy")), tmp_path / "site"
    page, manifest = copy / "report.html", copy / "manifest.json"
    opened = tallyveil.open(copy)
    drawn_before = page.read_bytes()
    fingerprint = sign(manifest)
    opened.explore(site)
    assert sentence_of(unsigned_site).startswith("When this site was made, nobody had signed")
    assert f" when this site was made: signed by {fingerprint}. " in sentence_of(site)
    assert tallyveil.verify(copy).holds  # with the page that was drawn before
    for of_release in (site, unsigned_site):
        assert tallyveil.verify(of_release, releases=[copy]).holds
    opened.report()
    assert f" when this page was drawn: signed by {fingerprint}. " in page.read_text()
    assert tallyveil.verify(copy).holds
    drawn_after = page.read_bytes()
    # By another key, and by none any more: the page and the site are those of another release.
    for take_away in (partial(sign, manifest, key=2), signature_path(manifest).unlink):
        take_away()
        assert "report.html is not the page" in " ".join(tallyveil.verify(copy).wrong)
        page.write_bytes(drawn_before)
        assert tallyveil.verify(copy).holds
        assert "data/site.json" in " ".join(tallyveil.verify(site, releases=[copy]).wrong)
        page.write_bytes(drawn_after)


def sentence_of(site: Path) -> str:
    return str(json.loads((site / "data" / "site.json").read_text())["signature"])


@pytest.mark.nightly
def test_a_site_of_two_releases_says_who_had_signed_each(release, tmp_path):
    first, second = (Path(shutil.copytree(release, tmp_path / name)) for name in ("first", "second"))
    site = tmp_path / "site"
    fingerprint = sign(second / "manifest.json")
    tallyveil.open(first).explore(site, compared_with=tallyveil.open(second))
    compared = json.loads((site / "data" / "site.json").read_text())["compared"]
    assert "nobody had signed" in sentence_of(site)
    assert f"signed by {fingerprint}. " in compared["signature"]
    sign(first / "manifest.json", key=2)
    verdict = tallyveil.verify(site, releases=[first, second])
    assert verdict.holds, verdict.wrong


@pytest.mark.nightly
def test_a_site_that_does_not_say_what_it_shows_is_wrong(release, unsigned_site, tmp_path):
    site = Path(shutil.copytree(unsigned_site, tmp_path / "site"))
    content = json.loads((site / "data" / "site.json").read_text())
    for damaged in ({**content, "tables": [{}]}, {**content, "signature": None}, {"tables": 1}):
        (site / "data" / "site.json").write_text(json.dumps(damaged))
        assert any(
            "site.json is damaged" in line for line in tallyveil.verify(site, releases=[release]).wrong
        )


@pytest.mark.parametrize("place", ["garbage", *few(1, PLACES)])
def test_what_lies_in_the_place_of_a_signature_is_wrong(release, tmp_path, place):
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    PLACES.get(place, partial(Path.write_text, data="x"))(signature_path(copy / "manifest.json"))
    assert tallyveil.open(copy).signature == "signature does not fit"
    verdict = tallyveil.verify(copy)
    assert verdict.signature == "signature does not fit"
    assert "manifest.json.sig: signature does not fit" in verdict.wrong
    tallyveil.open(copy).report()
    assert " when this page was drawn: signature does not fit." in (copy / "report.html").read_text()


def test_a_log_lies_beside_a_release_of_an_earlier_version_alone(release, tmp_path, command):
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    (copy / "log.jsonl").write_text('{"time": "2026-01-01", "event": "finished"}\n')
    assert any("log.jsonl" in line for line in tallyveil.verify(copy).wrong)
    content = json.loads((copy / "manifest.json").read_text()) | {"format": 3}
    times = {"digest": content.pop("digest"), "performance": [{"stage": "checks", "seconds": 0.25}]}
    times["digest"] = digest_of({**content, "format": 3}).hex()
    (copy / "manifest.json").write_text(json.dumps(content | times))
    verdict = tallyveil.verify(copy)
    assert verdict.holds, verdict.wrong
    assert any("publish clean" in line for line in verdict.not_looked_at)
    command("publish", "clean", copy)
    assert (copy / "manifest.json").read_bytes() == (release / "manifest.json").read_bytes()
    assert not (copy / "log.jsonl").exists()


@pytest.mark.nightly
def test_a_release_in_the_format_of_an_earlier_version_is_proved(release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    today = json.loads((copy / "manifest.json").read_text())
    same = {
        key: today[key]
        for key in ("run", "protected", "warnings", "plan_digest", "privacy", "event", "files", "ledger")
    }
    body = {key: today["body"][key] for key in ("name", "plan", "inputs", "sizes", "solver", "intervals")}
    earlier = {
        "checks": [{"check": check, "passed": True} for check in today["checks"]],
        "versions": {**today["versions"], "tallyveil": today["tallyveil"][0]},
        "performance": [{"stage": "checks", "seconds": 0.25, "peak_memory_mib": 120}],
    }
    (copy / "manifest.json").write_text(json.dumps({"format": 2, **same, **body, **earlier}))
    verdict = tallyveil.verify(copy)
    assert verdict.holds, verdict.wrong
    assert verdict.guarantee == tallyveil.verify(release).guarantee


def test_an_empty_folder_beside_is_noticed_and_releases_of_a_release_are_refused(release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    (copy / "epsilon is 0.1").mkdir()
    assert any("empty folder" in line for line in tallyveil.verify(copy).wrong)
    with pytest.raises(ConfigError, match="Leave it out"):
        tallyveil.verify(release, releases=[release])


def test_odd_folders_are_refused_in_words(release, tables, tmp_path):
    piped = shutil.copytree(release, tmp_path / "piped")
    (piped / "report.html").unlink()
    os.mkfifo(piped / "report.html")
    assert not tallyveil.verify(piped).holds
    listed = shutil.copytree(tables, tmp_path / "listed")
    for files in ([{}], [3]):
        (listed / "publication.json").write_text(json.dumps({"files": files}))
        assert not tallyveil.verify(listed).holds
    for path in (tmp_path / "nothing", tables / "publication.json"):
        with pytest.raises(StoreError) as caught:
            tallyveil.verify(path)
        assert caught.value.code == "no-release"
    with pytest.raises(StoreError) as caught:
        tallyveil.verify(tables, releases=[tmp_path / "nothing"])
    assert caught.value.code == "no-release"
