"""The ledger of a run folder is held to the one spend of the run."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from tallyveil.accounting.events import TEST_KEY, DiscreteGaussian
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.errors import StoreError
from tallyveil.runs.key_file import RunSecrets
from tallyveil.runs.once import (
    at_the_cost,
    copy_ledger,
    enter_spend,
    ledger_entries,
    require_one_spend,
    spent_in_words,
)

from .conftest import KEY, make_job

JOB = make_job()
SECRETS = RunSecrets(KEY, JOB.binding, JOB.whole_plan, protected=False)
OTHER_EVENT = DiscreteGaussian(Fraction(2), 1, 2)


def spent(out, event=JOB.event, token=JOB.token, run=SECRETS.run_id):
    """A ledger with one spend."""
    with Ledger(out / "ledger.jsonl", JOB.declaration, run) as ledger:
        ledger.spend(event, "a test", f"{run} {token}")
    return ledger_entries(out, draws=True)


def test_the_spend_of_the_run_passes(tmp_path):
    require_one_spend(tmp_path, enter_spend(tmp_path / "ledger.jsonl", JOB, SECRETS), JOB, SECRETS.run_id)


@pytest.mark.parametrize("protected", [True, False])
def test_the_spend_is_entered_once_and_a_test_key_beside_it(tmp_path, protected):
    secrets = replace(SECRETS, protected=protected)
    for _ in range(2):  # the second time, a run goes on
        entries = enter_spend(tmp_path / "ledger.jsonl", JOB, secrets)
        assert entries == ledger_entries(tmp_path, draws=True)
    spend = ("spend", JOB.event, secrets.run_id, f"{secrets.run_id} test", "a test")
    key = (
        "declassify",
        TEST_KEY,
        secrets.run_id,
        f"{secrets.run_id} test key",
        "run with an insecure test key",
    )
    found = [(one.kind, one.event, one.run, one.token, one.description) for one in entries]
    assert found == ([spend] if protected else [key, spend])


def test_what_was_spent_is_said_in_words(tmp_path):
    unknown = "It is not known what was spent, because its ledger is not there or cannot be read."
    assert spent_in_words(tmp_path) == unknown
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, JOB.declaration, SECRETS.run_id):
        pass
    assert spent_in_words(tmp_path) == "Its ledger shows no spend."
    spent(tmp_path)
    assert spent_in_words(tmp_path) == "Its ledger shows that rho = 1 was spent."
    path.write_text("nothing\n")
    assert spent_in_words(tmp_path) == unknown
    assert (at_the_cost(True), at_the_cost(False)) == (
        ", which is a new spend",
        "; estimating spends nothing",
    )


@pytest.mark.parametrize("planted", ["folder", "link"])
@pytest.mark.parametrize("draws", [True, False])
def test_a_ledger_that_is_no_plain_file_is_refused_in_the_words_of_the_work(tmp_path, planted, draws):
    path = tmp_path / "ledger.jsonl"
    if planted == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    with pytest.raises(StoreError, match="it is no plain file") as caught:
        ledger_entries(tmp_path, draws=draws)
    assert caught.value.code == "ledger-damaged"
    assert str(caught.value).startswith(f"the ledger {path} is not as the run left it")
    who, cost = (
        ("The run drew noise and", "a new spend.") if draws else ("the work cannot go on", "spends nothing.")
    )
    assert who in str(caught.value)
    assert str(caught.value).endswith(cost)


@pytest.mark.parametrize("data", [None, b"", b'{"half'])
def test_a_ledger_that_was_only_being_begun_has_no_entries(tmp_path, data):
    if data is not None:
        (tmp_path / "ledger.jsonl").write_bytes(data)
    assert ledger_entries(tmp_path, draws=True) == ()


def test_lines_of_all_other_runs_are_named(tmp_path):
    entries = [SimpleNamespace(run=run, kind="spend") for run in ("b", "a", SECRETS.run_id, "b")]
    with pytest.raises(StoreError, match=r"lines of another run \('a, b'\)"):
        require_one_spend(tmp_path, entries, JOB, SECRETS.run_id)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"event": OTHER_EVENT}, "another spend than this plan's"),
        ({"token": "another act"}, "does not show the spend of the run"),
        ({"run": "0" * 16}, "lines of another run"),
    ],
)
def test_another_spend_is_refused(tmp_path, changes, said):
    with pytest.raises(StoreError, match=said) as caught:
        require_one_spend(tmp_path, spent(tmp_path, **changes), JOB, SECRETS.run_id)
    assert caught.value.code == "ledger-damaged"
    assert "The run drew noise and cannot go on" in str(caught.value)


def test_a_ledger_is_begun_with_the_lines_of_the_earlier_run_and_no_others(tmp_path):
    (tmp_path / "earlier").mkdir()
    entries = spent(tmp_path / "earlier")
    earlier = SimpleNamespace(ledger=(tmp_path / "earlier" / "ledger.jsonl").read_bytes())
    for _ in range(2):  # the second time, work goes on
        assert copy_ledger(tmp_path, earlier) == entries
        assert (tmp_path / "ledger.jsonl").read_bytes() == earlier.ledger
    (tmp_path / "other").mkdir()
    spent(tmp_path / "other", event=OTHER_EVENT)
    (tmp_path / "other" / "ledger.jsonl").replace(tmp_path / "ledger.jsonl")
    said = (
        "not as the run left it: it does not hold the lines of the run that drew the measurements. The counts"
    )
    with pytest.raises(StoreError, match=said) as caught:
        copy_ledger(tmp_path, earlier)
    assert caught.value.code == "ledger-damaged"


def test_no_spend_and_two_spends_are_refused(tmp_path):
    with pytest.raises(StoreError, match="does not show the spend"):
        require_one_spend(tmp_path, (), JOB, SECRETS.run_id)
    once = spent(tmp_path)
    with pytest.raises(StoreError, match="does not show the spend"):
        require_one_spend(tmp_path, (*once, *once), JOB, SECRETS.run_id)
