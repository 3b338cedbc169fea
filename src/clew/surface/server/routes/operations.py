"""The paths for operators: health, readiness, metrics, and the page of the API."""

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
    """Return whether the store and the keys can be read; a missing collection is no fault."""
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
    """Return metrics in the format of Prometheus."""
    server: Server = request.app.state.server
    return Response(server.metrics.render(), media_type="text/plain; version=0.0.4")


_PAGE = {"/docs": "html", "/docs/page.js": "javascript", "/docs/page.css": "css"}


async def read_page(request: Request) -> Response:
    """Return a file of the API page, which loads nothing from elsewhere."""
    suffix = request.url.path.rpartition(".")[2] if "." in request.url.path else "html"
    content = files("clew.surface.server").joinpath("static", f"docs.{suffix}").read_bytes()
    return Response(content, media_type=f"text/{_PAGE[request.url.path]}", headers=_POLICY)


for _path in _PAGE:
    router.add_api_route(_path, read_page, methods=["GET"], include_in_schema=False)
