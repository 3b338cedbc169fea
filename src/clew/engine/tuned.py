"""The tuned settings of a collection: they hold where the user's own leave the default."""

import logging

from clew.core.errors import CollectionDamaged, DriverFailed, SettingsError
from clew.core.protocols import RecordStore
from clew.core.settings import DEFAULTS, Settings
from clew.core.settings.override import check_tunable, flatten_settings, override_settings
from clew.drivers.tuned import read_tuned_settings


def apply_tuned_settings(settings: Settings, records: RecordStore | None, embedder: str) -> Settings:
    """The settings with those that were tuned for the collection and this embedder, where they are at their default.

    DriverFailed names the file if it has any setting that cannot be tuned: it may have come with a folder.
    """
    try:
        kept = read_tuned_settings(records)
    except CollectionDamaged as error:  # a collection that does not open could not be repaired
        logging.getLogger(__name__).warning("tuned settings are not used: %s", error)
        return settings
    if records is None or not kept or kept[-1].embedder != embedder:
        return settings
    now, default = dict(flatten_settings(settings)), dict(flatten_settings(DEFAULTS))
    wanted = {name: value for name, value in kept[-1].settings.items() if now.get(name) == default.get(name)}
    try:
        for name, value in kept[-1].settings.items():
            check_tunable(name, [value])
        return override_settings(settings, wanted)
    except SettingsError as error:
        raise DriverFailed(f"{records.describe('tuned')} cannot be used: {error}; delete it") from error
