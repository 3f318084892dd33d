"""The bytes of a whole ledger are those that the same acts leave when they are entered one by one."""

from fractions import Fraction

from tallyveil.accounting.events import TEST_KEY, DiscreteGaussian, Neighbours
from tallyveil.accounting.ledger.file import Ledger, read_ledger
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry, first_lines, whole_ledger

DECLARED = Declaration("rho", Fraction(3), Neighbours.BOUNDED)
EVENT = DiscreteGaussian(Fraction(5), multiplicity=2)


def test_a_ledger_that_is_written_at_once(tmp_path):
    with Ledger(tmp_path / "ledger.jsonl", DECLARED, "run") as ledger:
        ledger.declassify(TEST_KEY, description="a key", token="run key")
        ledger.spend(EVENT, description="noise", token="run release")
    entries = [
        LedgerEntry(1, "declassify", TEST_KEY, None, "a key", "run key", "run"),
        LedgerEntry(2, "spend", EVENT, DECLARED.cost_of(EVENT), "noise", "run release", "run"),
    ]
    assert whole_ledger(DECLARED, entries, "run") == (tmp_path / "ledger.jsonl").read_bytes()
    assert read_ledger(tmp_path / "ledger.jsonl") == (DECLARED, tuple(entries))


def test_the_first_lines_are_whole_ones():
    data = b"one\ntwo\r\n\nthree\ncut off"
    assert first_lines(data, 0) == b""
    assert first_lines(data, 2) == b"one\ntwo\r\n"
    assert first_lines(data, 4) == first_lines(data, 9) == b"one\ntwo\r\n\nthree\n"
