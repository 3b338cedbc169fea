"""Validation of settings; each SettingsError names the setting and its allowed values."""

from clew.core.errors import SettingsError


def check_min(name: str, value: object, minimum: float) -> None:
    """Raise SettingsError if the value is below the minimum or not a number."""
    if not isinstance(value, int | float):
        raise SettingsError(f"{name} is {value!r}; it must be a number of at least {minimum}")
    if not value >= minimum:
        raise SettingsError(f"{name} is {value!r}; it must be at least {minimum}")


def check_range(name: str, value: object, minimum: float, maximum: float) -> None:
    """Raise SettingsError if the value is outside the range or not a number."""
    if not (isinstance(value, int | float) and minimum <= value <= maximum):
        raise SettingsError(f"{name} is {value!r}; it must be between {minimum} and {maximum}")


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise SettingsError if the value is not one of those allowed."""
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}; it may be {', '.join(allowed)}")
