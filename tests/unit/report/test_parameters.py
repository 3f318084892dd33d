"""Privacy parameters beside a claim of accuracy, as text."""

from tallyveil.accounting.guarantee import BETA, MU, epsilon_name
from tallyveil.report.privacy import parameter_table

ROW = {"level": "A", "spent": "1/3", **{epsilon_name(one): 2.00001 for one in ("1e-5", "1e-10", "1e-11")}}
FIRST = ("A", "0.33334", "2.0001", "2.0001", "2.0001")


def test_parameters_that_no_row_has_get_no_column():
    row = {**ROW, BETA: None, MU: None, "accountant": "zcdp"}
    for rows in ([row], [{**ROW, "accountant": "zcdp"}]):
        table = parameter_table(rows, "level")
        assert (table.symbols, table.rows) == ((), ((*FIRST, "zcdp"),))


def test_a_parameter_that_one_row_has_gets_a_column():
    rows = [{**ROW, BETA: None, "accountant": "zcdp"}, {**ROW, BETA: 0.12345, "accountant": "exact"}]
    table = parameter_table(rows, "level")
    assert table.symbols == ("β",)
    assert table.rows == ((*FIRST, "–", "zcdp"), (*FIRST, "0.1234", "exact"))
