"""The paths for who runs the server: health, readiness, counters, and the page of the interface."""

from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import Response

from clew.core.errors import NotFound
from clew.core.replies import ErrorReply, HealthReply
from clew.surface.server.call import document_replies, reply_json
from clew.surface.server.keys import reading_keys
from clew.surface.server.state import Server

router = APIRouter(tags=["operations"], responses=document_replies())
_POLICY = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "cache-control": "no-cache",
}


@router.get("/health", responses={200: {"model": HealthReply}})
async def health() -> Response:
    """Return whether the server runs."""
    return reply_json({"status": "ok", "version": version("clew")})


@router.get("/ready", responses={200: {"model": HealthReply}, 503: {"model": ErrorReply}})
async def ready(request: Request) -> Response:
    """Return whether the store and the keys can be read; a collection that nobody has filled yet is no fault."""
    server: Server = request.app.state.server

    def check() -> None:
        with reading_keys():
            server.keys.read()
        try:
            server.engines.get(server.start.collection).opened.store.stats()
        except NotFound:
            return

    await server.searches.run(check)
    return reply_json({"status": "ok", "version": version("clew")})


@router.get("/metrics", responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}})
async def metrics(request: Request) -> Response:
    """Return counters, as Prometheus reads them."""
    server: Server = request.app.state.server
    return Response(server.metrics.render(), media_type="text/plain; version=0.0.4")


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    """Return the page of the interface; it loads nothing from elsewhere."""
    return _read_static("docs.html", "text/html")


@router.get("/docs/page.js", include_in_schema=False)
async def docs_script() -> Response:
    """Return the script of the page."""
    return _read_static("docs.js", "text/javascript")


@router.get("/docs/page.css", include_in_schema=False)
async def docs_style() -> Response:
    """Return the style of the page."""
    return _read_static("docs.css", "text/css")


def _read_static(name: str, media_type: str) -> Response:
    content = files("clew.surface.server").joinpath("static", name).read_bytes()
    return Response(content, media_type=media_type, headers=_POLICY)
