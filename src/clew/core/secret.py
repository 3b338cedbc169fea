"""Masks passwords and keys in addresses, before they appear in messages and logs."""

import re

from clew.core.pattern import compile_pattern

HIDDEN = "********"
_USER = compile_pattern(r"(?<=://)([^:/?#@]*):[^/?#]*@")
_LOOSE = compile_pattern(r"(?<=:/)([^:/?#@]+):[^?#]*@")  # in a malformed address, everything that may be a password
_PARAMETER = compile_pattern(r"(?i)((?:^|[?&\s])[^=&?\s]*(?:password|passwd|token|secret|api_?key)[^=&?\s]*=)[^&\s]*")


def mask_secrets(address: str) -> str:
    """The address with the password of its user and secret parameters replaced by asterisks."""
    hidden = _USER.sub(rf"\1:{HIDDEN}@", address)
    if hidden == address and re.match(r"[a-z]+:/", address, re.IGNORECASE) and "://" not in address:
        hidden = _LOOSE.sub(rf"\1:{HIDDEN}@", address)
    return _PARAMETER.sub(rf"\1{HIDDEN}", hidden)
