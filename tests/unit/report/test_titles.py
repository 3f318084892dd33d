from tallyveil.report.release_files import schema_titles
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema, unit_of


def test_queries_are_called_in_words() -> None:
    titles = schema_titles(load_preset("pl94-persons"))
    assert titles.query("hispanic * cenrace") == "Hispanic origin × race"
    assert titles.query("total") == "all people"
    assert titles.query("detailed") == "every combination"
    assert titles.counts_of("total") == "the number of people"
    assert titles.counts_of("cenrace") == "the count of one answer to “race”"


def test_names_of_one_s_own_are_shown_without_underscores() -> None:
    schema = Schema("own", (Attribute("kind_of_work", ("a",)),), unit=unit_of("job"))
    titles = schema_titles(schema)
    assert titles.query("kind_of_work") == "kind of work"
    assert titles.query("total") == "all jobs"


def test_two_names_never_have_the_same_title() -> None:
    titles = schema_titles(Schema("own", (Attribute("a_b", ("x",)), Attribute("a b", ("x",)))))
    assert titles.query("a_b * a b") == "a_b × a b"
