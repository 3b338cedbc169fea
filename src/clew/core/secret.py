"""Addresses for messages: what is secret in them is hidden."""

import re

HIDDEN = "********"
_USER = re.compile(r"(?<=://)([^:/?#@]*):[^/?#]*@")
_LOOSE = re.compile(r"(?<=:/)([^:/?#@]+):[^?#]*@")  # of an address with too few or too many marks, all that may be one
_PARAMETER = re.compile(r"(?i)((?:^|[?&\s])[^=&?\s]*(?:password|passwd|token|secret|api_?key)[^=&?\s]*=)[^&\s]*")


def mask_secrets(address: str) -> str:
    """The address with its password, of its user or among its parameters, hidden."""
    hidden = _USER.sub(rf"\1:{HIDDEN}@", address)
    if hidden == address and re.match(r"[a-z]+:/", address, re.IGNORECASE) and "://" not in address:
        hidden = _LOOSE.sub(rf"\1:{HIDDEN}@", address)
    return _PARAMETER.sub(rf"\1{HIDDEN}", hidden)
