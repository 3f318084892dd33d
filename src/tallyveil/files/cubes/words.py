"""The words of the publications themselves, by language. A language that is not here has the words of English."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

ENGLISH: Final = MappingProxyType(
    {
        "by": "{what} by {dimensions}",
        "and": "and",
        "of": "{title} ({geolevel})",
        "area": "Code",
        "name": "Name",
        "period": "Period",
        "total": "Total",
        "measures": "Number",
        "count": "Published number",
        "estimate": "Estimate",
        "standard_error": "Standard error",
        "lower": "Lower end",
        "upper": "Upper end",
        "margin": "Margin of the published number",
        "estimate_margin": "Margin of the estimate",
        "status": "Status",
        "A": "exact",
        "E": "with noise",
        "U": "with noise, of low reliability",
        "F": "free for publication",
        "confidentiality": "Confidentiality",
        "unit": "Unit",
        "unit multiplier": "Power of ten of the unit",
        "decimals": "Decimals",
        "cover": "Cover",
        "contents": "Contents",
        "table": "Table",
        "rows": "Rows",
        "run": "Run",
        "manifest": "SHA-256 of manifest.json",
        "spent": "Privacy-loss budget spent",
        "licence": "Licence",
        "citation": "Citation",
        "back": "Back to the contents",
        "noise": "Random noise was added to these counts of {units} before they were published (differential privacy). "
        "Status A marks a number that is published exactly, E one with noise, and U one with noise whose standard "
        "error is more than a third of it.",
        "consistent": "Published numbers are whole and not negative, and those of an area add up to those of the area "
        "around it. Small ones tend to be a little too high.",
        "estimates": "Estimates are right on average and may be negative; use them for sums over many small areas.",
        "each": "The standard error is that of the noise. The interval from its lower to its upper end contains the "
        "count without noise with {level} confidence.",
        "together": "The standard error is that of the noise. All intervals of the table, each from its lower to its "
        "upper end, contain the counts without noise with {level} confidence together.",
        "errors": "The standard error is that of the noise.",
        "no intervals": "This table states no standard errors.",
        "groups": "Groups without a number were not published. Numbers of different groups have noise of their own and "
        "need not add up. Margins hold with 95 % confidence.",
        "sums": "Sums that the release publishes exactly are exact in this table. Margins hold with 95 % confidence.",
    }
)
GERMAN: Final = MappingProxyType(
    {
        "by": "{what} nach {dimensions}",
        "and": "und",
        "of": "{title} ({geolevel})",
        "area": "Schlüssel",
        "name": "Name",
        "period": "Zeit",
        "total": "Insgesamt",
        "measures": "Zahl",
        "count": "Veröffentlichte Zahl",
        "estimate": "Schätzwert",
        "standard_error": "Standardfehler",
        "lower": "Untergrenze",
        "upper": "Obergrenze",
        "margin": "Fehlerspanne der veröffentlichten Zahl",
        "estimate_margin": "Fehlerspanne des Schätzwerts",
        "status": "Status",
        "A": "exakt",
        "E": "mit Rauschen",
        "U": "mit Rauschen, wenig zuverlässig",
        "F": "zur Veröffentlichung frei",
        "confidentiality": "Geheimhaltung",
        "unit": "Einheit",
        "unit multiplier": "Zehnerpotenz der Einheit",
        "decimals": "Nachkommastellen",
        "cover": "Deckblatt",
        "contents": "Inhalt",
        "table": "Tabelle",
        "rows": "Zeilen",
        "run": "Lauf",
        "manifest": "SHA-256 von manifest.json",
        "spent": "Verbrauchtes Datenschutzbudget",
        "licence": "Lizenz",
        "citation": "Zitierweise",
        "back": "Zurück zum Inhalt",
        "noise": "Vor der Veröffentlichung wurde zu diesen Zahlen ({units}) zufälliges Rauschen addiert (Differential "
        "Privacy). Status A bezeichnet eine exakt veröffentlichte Zahl, E eine mit Rauschen, U eine mit Rauschen, "
        "deren Standardfehler mehr als ein Drittel von ihr beträgt.",
        "consistent": "Veröffentlichte Zahlen sind ganz und nicht negativ, und die eines Gebiets ergeben in der Summe "
        "die des übergeordneten Gebiets. Kleine sind im Mittel etwas zu hoch.",
        "estimates": "Schätzwerte sind im Mittel richtig und können negativ sein; sie eignen sich für Summen über "
        "viele kleine Gebiete.",
        "each": "Der Standardfehler ist der des Rauschens. Das Intervall von Unter- bis Obergrenze enthält die Zahl "
        "ohne Rauschen mit einer Sicherheit von {level}.",
        "together": "Der Standardfehler ist der des Rauschens. Alle Intervalle der Tabelle, je von Unter- bis "
        "Obergrenze, enthalten die Zahlen ohne Rauschen gemeinsam mit einer Sicherheit von {level}.",
        "errors": "Der Standardfehler ist der des Rauschens.",
        "no intervals": "Diese Tabelle nennt keine Standardfehler.",
        "groups": "Gruppen ohne Zahl wurden nicht veröffentlicht. Zahlen verschiedener Gruppen haben eigenes Rauschen "
        "und brauchen sich nicht zu addieren. Fehlerspannen gelten mit einer Sicherheit von 95 %.",
        "sums": "Summen, die die Veröffentlichung exakt angibt, stimmen in dieser Tabelle exakt. Fehlerspannen gelten "
        "mit einer Sicherheit von 95 %.",
    }
)
FRENCH: Final = MappingProxyType(
    {
        "by": "{what} par {dimensions}",
        "and": "et",
        "of": "{title} ({geolevel})",
        "area": "Code",
        "name": "Nom",
        "period": "Période",
        "total": "Ensemble",
        "measures": "Nombre",
        "count": "Nombre publié",
        "estimate": "Estimation",
        "standard_error": "Erreur type",
        "lower": "Borne inférieure",
        "upper": "Borne supérieure",
        "margin": "Marge d’erreur du nombre publié",
        "estimate_margin": "Marge d’erreur de l’estimation",
        "status": "Statut",
        "A": "exact",
        "E": "avec bruit",
        "U": "avec bruit, peu fiable",
        "F": "libre de publication",
        "confidentiality": "Confidentialité",
        "unit": "Unité",
        "unit multiplier": "Puissance de dix de l’unité",
        "decimals": "Décimales",
        "cover": "Couverture",
        "contents": "Sommaire",
        "table": "Tableau",
        "rows": "Lignes",
        "run": "Exécution",
        "manifest": "SHA-256 de manifest.json",
        "spent": "Budget de confidentialité dépensé",
        "licence": "Licence",
        "citation": "Citation",
        "back": "Retour au sommaire",
        "noise": "Un bruit aléatoire a été ajouté à ces nombres ({units}) avant leur publication (confidentialité "
        "différentielle). Le statut A désigne un nombre publié exactement, E un nombre avec bruit, U un nombre avec "
        "bruit dont l’erreur type dépasse le tiers.",
        "consistent": "Les nombres publiés sont entiers et non négatifs, et ceux d’un territoire s’additionnent pour "
        "donner ceux du territoire qui l’entoure. Les petits sont en moyenne un peu trop élevés.",
        "estimates": "Les estimations sont justes en moyenne et peuvent être négatives ; elles conviennent aux sommes "
        "sur de nombreux petits territoires.",
        "each": "L’erreur type est celle du bruit. L’intervalle de la borne inférieure à la borne supérieure contient "
        "le nombre sans bruit avec une confiance de {level}.",
        "together": "L’erreur type est celle du bruit. Tous les intervalles du tableau, chacun de sa borne inférieure "
        "à sa borne supérieure, contiennent ensemble les nombres sans bruit avec une confiance de {level}.",
        "errors": "L’erreur type est celle du bruit.",
        "no intervals": "Ce tableau n’indique pas d’erreurs types.",
        "groups": "Les groupes sans nombre n’ont pas été publiés. Les nombres de groupes différents ont chacun leur "
        "bruit et ne s’additionnent pas forcément. Les marges valent avec une confiance de 95 %.",
        "sums": "Les sommes que la publication donne exactement sont exactes dans ce tableau. Les marges valent avec "
        "une confiance de 95 %.",
    }
)
WORDS: Final[Mapping[str, Mapping[str, str]]] = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH}


def word(language: str, key: str) -> str:
    """A word or a sentence in a language, by its key."""
    return WORDS.get(language.partition("-")[0], ENGLISH)[key]


def listed_in(language: str, names: Sequence[str]) -> str:
    """Names in a sentence."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word(language, 'and')} {names[-1]}"


def titled(language: str, what: str, dimensions: Sequence[str]) -> str:
    """The title of a table that has none: what it counts, by what."""
    title = word(language, "by").format(what=what, dimensions=listed_in(language, dimensions))
    return title[:1].upper() + title[1:]
