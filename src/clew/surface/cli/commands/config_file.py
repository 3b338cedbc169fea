"""Writes the settings file of `clew config init`."""

from pathlib import Path

from clew.core.errors import DriverFailed, SettingsError
from clew.surface.cli.program import ProgramOptions
from clew.surface.settings.load import FILE
from clew.surface.settings.template import make_settings_file


def write_settings_file(options: ProgramOptions, *, force: bool) -> Path:
    """The file that was written: that of --config, or clew.toml here; SettingsError if it is there, unless forced."""
    file = options.config or Path(FILE)
    chosen = {
        "path": options.path,
        "collection": options.collection,
        "embedder.name": options.embedder,
        "llm.name": options.llm,
    }
    try:
        with file.open("w" if force else "x", encoding="utf-8") as target:
            target.write(make_settings_file(chosen))
    except FileExistsError:
        raise SettingsError(f"{file} is there already; --force replaces it") from None
    except OSError as error:
        raise DriverFailed(f"{file} cannot be written ({error.strerror}); check the folder") from error
    return file
