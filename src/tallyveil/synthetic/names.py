"""Names of a made-up country in three languages: those of its states, counties and tracts."""

from typing import Final

import polars as pl

LANGUAGES: Final = ("de", "fr")
"""Languages of the names beside English, in which a column without a language is."""

_BEGINS: Final = (
    ("Mill", "Mühl", "Moulin"), ("Stone", "Stein", "Pierre"), ("Oak", "Eich", "Chêne"), ("Ash", "Eschen", "Frêne"),
    ("Lake", "See", "Lac"), ("Fox", "Fuchs", "Renard"), ("Hazel", "Hasel", "Noisetier"), ("New", "Neu", "Neuf"),
    ("Sun", "Sonnen", "Soleil"), ("Rose", "Rosen", "Rose"), ("Birch", "Birken", "Bouleau"), ("Wolf", "Wolfs", "Loup"),
)  # fmt: skip
_ENDS: Final = (
    ("ford", "furt", "Gué"), ("field", "feld", "Champ"), ("brook", "bach", "Ruisseau"), ("hill", "berg", "Mont"),
    ("bridge", "brück", "Pont"), ("wood", "wald", "Bois"), ("haven", "hafen", "Havre"), ("dale", "tal", "Val"),
)  # fmt: skip
"""Parts of names in English, German and French. There are as many different names as pairs of a begin and an end."""
_STATES: Final = (("Northmark", "Nordmark", "Marche-du-Nord"), ("Southmark", "Südmark", "Marche-du-Sud"))
_KINDS: Final = {
    "County": ("{} County", "Kreis {}", "Comté de {}"),
    "Tract": ("{}", "{}", "{}"),
}


def make_names(geography: pl.DataFrame) -> pl.DataFrame:
    """Names of the states, counties and tracts of a made-up country, in all its languages.

    Args:
        geography: Text columns state, county and tract.
    Returns:
        Columns geolevel, geocode, name, `name:de` and `name:fr`.
    """
    rows = []
    for geolevel in ("State", "County", "Tract"):
        codes = geography[geolevel.lower()].unique().sort().to_list()
        for number, code in enumerate(codes):
            rows.append((geolevel, code, *_names(geolevel, number)))
    columns = ["geolevel", "geocode", "name", *(f"name:{language}" for language in LANGUAGES)]
    return pl.DataFrame(rows, columns, orient="row")


def _names(geolevel: str, number: int) -> tuple[str, ...]:
    if geolevel == "State":
        again, place = divmod(number, len(_STATES))
        return tuple(_numbered(name, again) for name in _STATES[place])
    # Every pair occurs once before any occurs again: the begins run through, and the ends move on with each round.
    again, place = divmod(number, len(_BEGINS) * len(_ENDS))
    round_, begin = divmod(place, len(_BEGINS))
    (english, german, french), ends = _BEGINS[begin], _ENDS[(round_ + begin) % len(_ENDS)]
    # Counties have other names than the tracts in them, and French puts the end first.
    names = (english + ends[0], german + ends[1], f"{ends[2]}-{french}")
    return tuple(
        _numbered(kind.format(name), again) for kind, name in zip(_KINDS[geolevel], names, strict=True)
    )


def _numbered(name: str, again: int) -> str:
    return f"{name} {again + 1}" if again else name
