"""The unit of record: what one record represents, and therefore what every count counts."""

from dataclasses import dataclass

from tallyveil.errors import SchemaError

# Characters of a unit, which messages and pages show within a line. Half would refuse units of several words.
MOST_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Unit:
    """What one record represents, in the words that messages, pages and manifests use.

    Attributes:
        one: The singular, such as "household".
        many: The plural, such as "households".
    Raises:
        SchemaError: a word contains anything other than letters, spaces and hyphens, or is too long.
    """

    one: str
    many: str

    def __post_init__(self) -> None:
        for key, word in (("unit", self.one), ("units", self.many)):
            # Terminals, pages and file tags show these words, so only letters, spaces and hyphens are allowed.
            plain = isinstance(word, str) and word.replace(" ", "").replace("-", "").isalpha()
            if not plain or word != word.strip() or len(word) > MOST_CHARACTERS:
                raise SchemaError(
                    f"[schema] {key} is {str(word)[:MOST_CHARACTERS]!r}; wanted a word or words of letters, spaces and "
                    f"hyphens, at most {MOST_CHARACTERS} characters, such as "
                    f'"{"household" if key == "unit" else "households"}".',
                    code="schema-unit",
                )

    def counted(self, number: int) -> str:
        """A number with the unit, such as "1 household" or "1,200 households"."""
        return f"{number:,} {self.one if number == 1 else self.many}"


PERSON = Unit("person", "people")
"""The unit of a schema that does not name one."""


def unit_of(one: str | None = None, many: str | None = None) -> Unit:
    """The unit that a schema's words describe.

    Args:
        one: The singular; None for a person.
        many: The plural. The default is that of `plural_of`, and "people" for persons.
    Raises:
        SchemaError: see `Unit`.
    """
    if one is None or one == PERSON.one:
        return PERSON if many is None else Unit(PERSON.one, many)
    return Unit(one, plural_of(one) if many is None else many)


def plural_of(noun: str) -> str:
    """The plural of an English noun, or of the last word of several: cities, parishes, school districts.

    A noun that ends in a single "s", such as "towns", is taken for a plural already.
    """
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    if noun.endswith("is"):
        return f"{noun[:-2]}es"
    if noun.endswith(("ss", "us", "x", "z", "ch", "sh")):
        return f"{noun}es"
    return noun if noun.endswith("s") else f"{noun}s"
