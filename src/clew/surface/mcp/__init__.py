"""The MCP server: a few verbs as tools, over standard input or mounted in the HTTP server."""

from importlib.util import find_spec
from typing import Final

MCP_HINT: Final = "pip install 'clew[mcp]' adds it"


def is_mcp_installed() -> bool:
    """Return whether the package of the protocol, an extra of Clew, is installed."""
    return find_spec("mcp") is not None
