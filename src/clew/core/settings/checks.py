"""What every table checks of its values; each error names the setting and what it may be."""

from clew.core.errors import SettingsError


def at_least(name: str, value: float, least: float) -> None:
    """Refuses a value below the least, and what is no number."""
    if not value >= least:
        raise SettingsError(f"{name} is {value}; it must be at least {least}")


def between(name: str, value: float, least: float, most: float) -> None:
    """Refuses a value outside a range."""
    if not least <= value <= most:
        raise SettingsError(f"{name} is {value}; it must be between {least} and {most}")


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuses a word that is not one of those allowed."""
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}; it may be {', '.join(allowed)}")
