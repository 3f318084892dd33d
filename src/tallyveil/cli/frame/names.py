"""Flags that list names, separated by commas."""

from tallyveil.errors import ConfigError


def names_of(text: str, flag: str) -> list[str]:
    """The names in the value of a flag, which are separated by commas.

    Raises:
        ConfigError: there is none. Leaving the flag out means something else in most commands.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError(
            f"{flag} is '{text:.80}', which holds no name. Give one name or several, separated by commas, or leave the "
            "flag out.",
            code="bad-flag",
        )
    return names


def names_if_any(text: str | None, flag: str) -> list[str] | None:
    """The same of a flag that may be left out; None where it was. Raises ConfigError."""
    return None if text is None else names_of(text, flag)
