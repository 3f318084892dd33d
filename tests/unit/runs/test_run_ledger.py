"""The ledger of a run folder is held to the one spend of the run."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

from tallyveil.accounting.events import DiscreteGaussian
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.errors import StoreError
from tallyveil.runs.key_file import RunSecrets
from tallyveil.runs.run_ledger import copy_ledger, enter_spend, ledger_entries, require_one_spend

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
