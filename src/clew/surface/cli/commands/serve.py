"""The commands that serve: serve, keys, mcp for an assistant on this machine, tools for other agents."""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clew.core.errors import DriverMissing, NotFound, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.suggest import format_count, mask_secrets, suggest_name
from clew.surface.cli import options as o
from clew.surface.cli import render
from clew.surface.cli.option_groups import Seen, expand_option_groups
from clew.surface.cli.program import open_engine, resolve_invocation
from clew.surface.cli.table import print_table

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from clew.surface.server.keys import Key, Keys
    from clew.surface.settings.load import Invocation


keys_app = typer.Typer(add_completion=False)
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="Address to listen on; one that others can reach needs keys."),
]
Port = Annotated[int | None, typer.Option("--port", metavar="N", help="Port to listen on (default: 8080).")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Refuse requests that add or remove.")]
KeyName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the key's owner; no two valid keys may share it.")
]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="Id or name of a key, as `clew keys` lists it.")]
Write = Annotated[bool, typer.Option("--write", help="Let the key also add and remove; not together with a filter.")]
Collections = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="COLLECTION", help="Let the key open only this collection (repeatable)."),
]
ResetYes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before all keys are removed.")]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="When the key expires: a date, or a span such as 12h or 90d."),
]


def serve(
    ctx: typer.Context,
    *,
    host: Host = None,
    port: Port = None,
    read_only: ReadOnly = False,
    as_json: o.Json = False,
) -> None:
    """Serve the collections over HTTP: the verbs, OpenAI's interface, and MCP.

    By default it listens on this machine alone; on any other address it needs keys (`clew keys add`).
    """
    from clew.surface.mcp import MCP_HINT, is_mcp_installed

    own = {"server.host": host, "server.port": port, "server.read_only": True if read_only else None}
    start = resolve_invocation(ctx, own)
    try:
        from clew.surface.server.observe import configure_spans, log_as_json
        from clew.surface.server.run import run_server
        from clew.surface.server.state import Server
    except ModuleNotFoundError as error:
        raise DriverMissing(f"serving needs {error.name}; pip install 'clew[server]'") from error

    note = _describe_new_collection(start)
    server = Server(start)
    keys = server.keys.count_valid() if server.keys.exists() else None
    has_mcp = is_mcp_installed()

    def say(address: str) -> None:
        if as_json:
            render.print_json({"address": address, "keys": keys, "mcp": has_mcp, "note": note})
            return
        print(f"serving on {address} (its interface: {address}/docs)")
        print(_describe_keys(keys, server.keys.place), flush=True)
        if not has_mcp:
            render.print_line((f"note: this server has no MCP; {MCP_HINT}", "yellow"), err=True)
        if note:
            render.print_line((note, "yellow"), err=True)

    log_as_json()
    configure_spans()
    run_server(server, say)


def _describe_keys(valid: int | None, place: str) -> str:
    """Describe how many keys the server has, or who may use it without one."""
    if valid is None:
        return "no keys: everybody who reaches this address may use it; `clew keys add NAME` makes one"
    if not valid:
        return f"keys: none is valid in {place}, so nobody may use it; `clew keys add NAME` makes one"
    return f"keys: {valid} in {place}"


def _describe_new_collection(start: "Invocation") -> str:
    """Describe that the collection to serve does not exist yet, and which do; empty if it exists."""
    from clew.engine import Engine

    try:
        names = [each.name for each in Engine.collections(start.path)]
    except NotFound:
        names = []
    if start.collection in names:
        return ""
    others = f" (there is {', '.join(names)})" if names else ""
    place = mask_secrets(start.path)
    return f"note: there is no collection {start.collection!r} in {place} yet{others}; the first upload makes it"


@keys_app.callback(invoke_without_command=True)
def keys(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List the keys of the server, make one, or revoke one."""
    if ctx.invoked_subcommand is None:
        list_(ctx, as_json=as_json)


@keys_app.command("list")
def list_(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List the keys: what each opens, and until when."""
    with _open_keys(ctx) as keys:
        found = list(keys.read().values())
    if as_json:
        render.print_json({"keys": [key.to_json() for key in found]})
        return
    if not found:
        render.print_line(("there are no keys; `clew keys add NAME` makes one", "dim"), err=True)
        return
    columns = ("id", "name", "rights", "collections", "where", "expires", "state")
    print_table(columns, [_to_row(key) for key in found], optional=("where",), texts={"name": 20, "where": 30})


def add(
    ctx: typer.Context,
    *,
    name: KeyName,
    write: Write = False,
    only: Collections = None,
    expires: Expires = None,
    seen: Seen,
    as_json: o.Json = False,
) -> None:
    """Make a key and print it, once: only a hash of it is kept. The filters limit what it can see."""
    if not name.strip():
        raise SettingsError("the key has no name; say whose it is, such as `clew keys add ada`")
    where = _build_filter(seen)
    until = _parse_expiry(expires)
    with _open_keys(ctx) as keys:
        key, token = keys.add(
            name,
            rights="write" if write else "read",
            collections=frozenset(only) if only else None,
            where=where,
            expires=until,
        )
    for warning in _find_unknown(ctx, frozenset(only or ()), where):
        render.print_line((f"{warning} (the key is made)", "yellow"), err=True)
    if as_json:
        render.print_json({**key.to_json(), "key": token})
    else:
        print(token)
        opened = "" if only or where != EVERYTHING else f", and {'changes' if write else 'reads'} every collection"
        render.print_line((f"key {key.id}; it is not shown again{opened}", "dim"), err=True)


keys_app.command("add")(expand_option_groups(add))


@keys_app.command()
def revoke(ctx: typer.Context, *, key: KeyId, as_json: o.Json = False) -> None:
    """Revoke a key by its id or name, at once; it stays in the list."""
    with _open_keys(ctx) as keys:
        revoked = keys.revoke(key)
    render.print_outcome(f"key {revoked.id} revoked", revoked.to_json(), as_json=as_json)


@keys_app.command()
def drop(ctx: typer.Context, *, key: KeyId, as_json: o.Json = False) -> None:
    """Remove a key from the list; it opens nothing any more."""
    with _open_keys(ctx) as keys:
        dropped = keys.drop(key)
        render.print_outcome(f"key {dropped.id} dropped", dropped.to_json(), as_json=as_json)
        if not keys.read():
            note = "no key is left, so the server answers nobody; `clew keys reset` lets this machine in without keys"
            render.print_line((note, "yellow"), err=True)


@keys_app.command()
def reset(ctx: typer.Context, *, yes: ResetYes = False, as_json: o.Json = False) -> None:
    """Remove all keys; a server on this machine alone then needs none, as before the first key."""
    with _open_keys(ctx) as keys:
        count = len(keys.read())
        if not yes and sys.stdin.isatty():
            typer.confirm(f"Remove {format_count(count, 'key')}, and let everybody on this machine in?", abort=True)
        keys.reset()
    told = f"{format_count(count, 'key')} removed; a server on this machine alone now answers everybody on it"
    render.print_outcome(told, {"removed": count}, as_json=as_json)


def _open_keys(ctx: typer.Context) -> "AbstractContextManager[Keys]":
    from contextlib import closing

    from clew.surface.server.keys import open_keys

    return closing(open_keys(resolve_invocation(ctx)))


def _build_filter(seen: Seen) -> "Filter":
    """Build the filter of a key; documents by id or address, as the collection may not exist yet."""
    from pathlib import Path

    from clew.index.walk.uri import resolve_document_ids

    made = seen.make_filter_without_documents()
    names = seen.values["where_documents"]
    if not names:
        return made
    for name in names:
        if any(sign in name for sign in "*?[") or name.endswith("/") or Path(name).is_dir():
            raise SettingsError(
                f"--document is {name!r}; a key takes ids and addresses of documents, no folders or patterns, since "
                "what they match may change; give those documents a label or --meta, and the key that"
            )
    return replace(made, documents=frozenset(each for name in names for each in resolve_document_ids(name, Path.cwd())))


def _find_unknown(ctx: typer.Context, only: frozenset[str], where: "Filter") -> list[str]:
    """Return a sentence for each collection, channel, author or kind of a new key that does not exist (yet)."""
    from clew.engine import Engine

    start = resolve_invocation(ctx)
    try:
        known = [each.name for each in Engine.collections(start.path)]
    except NotFound:
        known = []
    found = [suggest_name("collection", name, known) for name in sorted(only.difference(known))]
    if where == EVERYTHING:
        return found
    unknown: list[dict[str, str]] = []  # per collection: the sentences, by what they miss
    for name in known:
        if not only or name in only:
            with Engine.open(start.path, collection=name, settings=start.settings, create=False) as engine:
                is_named = where.documents and any(engine.opened.store.documents(Filter(documents=where.documents)))
                asked = replace(where, documents=None) if is_named else where  # an address stands for several ids
                unknown.append({each.partition(";")[0]: each for each in engine.unknown_names(asked)})
    return (
        found + [each for missing, each in unknown[0].items() if all(missing in one for one in unknown)]
        if unknown
        else found
    )


def _parse_expiry(text: str | None) -> datetime | None:
    """Parse the time of --expires: a date or time (UTC), or a span from now."""
    if text is None:
        return None
    units = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
    try:
        if text[:-1].isdecimal() and text[-1:] in units:
            return datetime.now(UTC).replace(microsecond=0) + timedelta(**{units[text[-1]]: int(text[:-1])})
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        forms = "a span such as 12h or 90d, a date such as 2030-05-31, or a time such as 2030-05-31T14:00"
        raise SettingsError(f"--expires is {text!r}; it must be {forms}") from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    if time <= datetime.now(UTC):
        raise SettingsError(f"--expires is {text}, which is past; give a later time, or a span such as 90d")
    return time


def _to_row(key: "Key") -> tuple[str, ...]:
    import json

    shown: dict[str, Any] = key.to_json()
    where = json.dumps(shown["where"], ensure_ascii=False) if shown["where"] else "everything"
    collections = "all" if key.collections is None else " ".join(sorted(key.collections))
    state = key.describe_problem(datetime.now(UTC)).partition(";")[0].removeprefix("the key ") or "valid"
    return (key.id, key.name, key.rights, collections, where, shown["expires"] or "never", state)


NoChanges = Annotated[bool, typer.Option("--read-only", help="Offer no tool that changes the collection.")]


def mcp(
    ctx: typer.Context,
    *,
    read_only: NoChanges = False,
    as_json: o.Json = False,  # noqa: ARG001 (what it prints is JSON; with the option its errors are, too)
) -> None:
    """Serve the collection to an assistant as an MCP server, over standard input and output."""
    try:
        from clew.surface.mcp.server import make_local_server
    except ModuleNotFoundError as error:
        raise DriverMissing(f"an MCP server needs {error.name}; pip install 'clew[mcp]'") from error

    start = resolve_invocation(ctx)
    with open_engine(ctx) as engine:  # a wrong path is an error, and creates nothing
        make_local_server(engine, collection=start.collection, read_only=read_only).run("stdio")


Format = Annotated[
    Literal["json", "openai", "anthropic"] | None,
    typer.Option("--format", help="Print the schemas: plain JSON Schema, or as OpenAI or Anthropic take tools."),
]


def tools(*, form: Format = None, as_json: o.Json = False) -> None:
    """List the agent's tools, or print their JSON schemas for another agent; `Engine.tools` calls them."""
    from clew.query.agent.tools import Toolbox

    if form:
        render.print_json(Toolbox.schemas(form))
        return
    if as_json:
        render.print_json({"tools": Toolbox.schemas()})
        return
    for schema in Toolbox.schemas():
        arguments = ", ".join(name if name in schema["required"] else f"[{name}]" for name in schema["properties"])
        render.print_line((f"{schema['title']}({arguments})", "bold"))
        render.print_text(f"  {schema['description'].splitlines()[0]}")
