"""The web page: files built from `web/`, served at these paths, and routes for data that no verb returns."""

from collections.abc import Mapping
from typing import Final

FILES: Final[Mapping[str, str]] = {
    "/": "text/html; charset=utf-8",
    "/page/app.js": "text/javascript; charset=utf-8",
    "/page/app.css": "text/css; charset=utf-8",
}
