"""Watches a request while it runs: the client may hang up, its key may end, the server may be told to stop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from clew.surface.server.errors import KeyInvalid, RequestRejected, ServerBusy
from clew.surface.server.guard.body import LimitedBody
from clew.surface.server.guard.reply import Reply

CHECK_SECONDS = 0.5  # between two looks at the key of a stream


async def run_watched(
    call: Awaitable[None],
    body: LimitedBody,
    reply: Reply,
    *,
    check_key: Callable[[], Awaitable[object]] | None,
    is_closing: Callable[[], bool],
) -> None:
    """Runs a call of the application; it is cancelled once nobody is there for it.

    Work in a thread then ends at its next step. A stream whose key was revoked or has expired, and one that is open
    when the server stops, ends with an event that says so.
    """
    work = asyncio.ensure_future(call)
    gone = asyncio.create_task(body.wait_gone())
    try:
        while not work.done() and not reply.is_complete:
            await asyncio.wait({work, gone}, timeout=CHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if work.done() or reply.is_complete:
                break
            if gone.done():
                reply.abandon()
                return
            if reply.is_stream and (ended := await _find_end(check_key, is_closing)):
                await _cancel(work)
                await reply.end_stream(ended)
                return
        await work
    finally:
        await _cancel(gone)
        await _cancel(work)


async def _find_end(
    check_key: Callable[[], Awaitable[object]] | None, is_closing: Callable[[], bool]
) -> RequestRejected | None:
    """Why a stream must end now, if it must."""
    if is_closing():
        return ServerBusy("the server is shutting down; ask again later")
    try:
        if check_key is not None:
            await check_key()
    except KeyInvalid as error:
        return error
    return None


async def _cancel(task: "asyncio.Future[Any]") -> None:
    """Ends a task and waits for it; an error that it had is another's to raise."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
