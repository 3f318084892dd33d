from tallyveil.schema.attribute import Attribute


def test_code_is_the_place_of_the_level() -> None:
    sex = Attribute("sex", ("male", "female"))
    assert sex.size == 2
    assert [sex.code(level) for level in sex.levels] == [0, 1]
