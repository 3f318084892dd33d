"""Several names in one sentence."""

from collections.abc import Sequence

from tallyveil.words.language import ENGLISH, Language


def listed(items: Sequence[str], language: Language = ENGLISH) -> str:
    """The items separated by commas, with "and" before the last; "none" if there are none."""
    if len(items) < 2:
        return items[0] if items else language.say("none")
    return language.say("{first} and {last}", first=", ".join(items[:-1]), last=items[-1])
