"""How a release is called in each of its languages, and what its site says of it there.

A site without labels has no editions, and its pages speak English.
"""

from collections.abc import Sequence

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.strategy import Mechanism
from tallyveil.explore.asking import asking_entry
from tallyveil.explore.opened import OpenedRelease
from tallyveil.explore.tables import NO_INTERVALS
from tallyveil.files.finished import MANIFEST
from tallyveil.files.marks import marks_of
from tallyveil.files.signatures import SITE_MADE, Signature
from tallyveil.report.privacy import MECHANISMS, NEIGHBOURS
from tallyveil.report.release_files import Titles, schema_titles
from tallyveil.report.stated import stated_in
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject
from tallyveil.words.language import ENGLISH, Language, language_name, language_of


def edition_entries(release: OpenedRelease, signature: Signature) -> list[JsonObject]:
    """What `site.json` says in each language of a release.

    Args:
        release: The release.
        signature: That of its manifest.
    """
    return [_edition(release, signature, tag) for tag in release.plan.languages]


def signature_sentence(signature: Signature, language: Language = ENGLISH) -> str:
    """What a site says of a signature."""
    return signature.sentence(MANIFEST, SITE_MADE, language)


def _edition(release: OpenedRelease, signature: Signature, tag: str) -> JsonObject:
    labels, language = release.plan.labels_in(tag), language_of(tag)
    titles = schema_titles(release.schema, labels, language)
    intervals, forms = release.intervals, dict(labels.geolevels)
    return {
        "tag": tag,
        "language": language_name(tag),
        "words": None if language is ENGLISH else language.tag,
        "name": labels.title or release.name,
        "unit": titles.unit.many,
        "warnings": [stated_in(language, warning) for warning in marks_of(release.manifest).warnings],
        "guarantee": guarantee_sentences(release, titles),
        "signature": signature_sentence(signature, language),
        "no_intervals": None if intervals is not None else language.say(NO_INTERVALS),
        "covers": None if intervals is None else stated_in(language, intervals["covers"]),
        "kinds": [
            None if kind.name not in forms else {"one": forms[kind.name].one, "other": forms[kind.name].other}
            for kind in release.areas.kinds
        ],
        "tables": [_table(titles, group) for group in release.queries],
        "attributes": [_attribute(titles, entry) for entry in asking_entry(release)["attributes"]],
    }


def guarantee_sentences(release: OpenedRelease, titles: Titles) -> list[str]:
    """What the release promises, in plain sentences of the language of titles."""
    privacy, say = release.manifest.privacy, titles.say
    _, neighbours = NEIGHBOURS[Neighbours(privacy["neighbours"])]
    _, mechanism = MECHANISMS[Mechanism(privacy["mechanism"])]
    statement = stated_in(titles.language, privacy["statement"])
    exact = [
        say(
            "{query} at {geolevel}",
            query=titles.query(item.query),
            geolevel=titles.listed(list(map(titles.geolevel, item.geolevels))),
        )
        for item in release.plan.invariants
    ]
    return [
        say(mechanism),
        f"{statement[0].upper()}{statement[1:]}.",
        say(neighbours, unit=titles.unit.one),
        *([say("Published exactly, without noise: {counts}.", counts=titles.listed(exact))] if exact else []),
        stated_in(titles.language, privacy["post_processing"]),
    ]


def _table(titles: Titles, group: QueryGroup) -> JsonObject:
    factors = group.named_factors
    levels = [_levels(titles, str(factor.name), factor.labels) for factor in factors]
    answers = [""]
    for called in levels:
        answers = [f"{before} × {level}" if before else level for before in answers for level in called]
    return {
        "title": titles.query(group.name),
        "answers": answers if factors else [titles.say("total")],
        "factors": [
            {"title": titles.factor(str(factor.name)), "levels": called}
            for factor, called in zip(factors, levels, strict=True)
        ],
    }


def _attribute(titles: Titles, entry: JsonObject) -> JsonObject:
    """What an attribute of the page of tables is called, and its recodes."""
    called = {
        "title": titles.factor(entry["name"]),
        "levels": _levels(titles, entry["name"], entry["levels"]),
    }
    recodes = [_attribute(titles, recode) for recode in entry.get("recodes", ())]
    return called | ({"recodes": recodes} if "recodes" in entry else {})


def _levels(titles: Titles, name: str, levels: Sequence[str]) -> list[str]:
    return [titles.labels.level(name, level) for level in levels]
