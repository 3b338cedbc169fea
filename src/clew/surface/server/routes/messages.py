"""The paths of conversations: messages, channels, windows, styles."""

from typing import Any

from fastapi import APIRouter

from clew.core import requests as q
from clew.core.errors import SettingsError
from clew.engine import Engine
from clew.query.messages.style import TOO_FEW
from clew.surface.server.call import document_replies, serve
from clew.surface.server.errors import NotPossible
from clew.surface.verbs import call_verb

router = APIRouter(tags=["conversations"], responses=document_replies(404, 409))


def run_style_verb(engine: Engine, asked: q.Profile | q.StylePrompt) -> Any:
    """Return a style; too few messages raise NotPossible, since the request itself is valid."""
    try:
        found = call_verb(engine, asked)
    except SettingsError as error:
        raise (NotPossible(str(error)) if TOO_FEW in str(error) else error) from error
    if isinstance(asked, q.Profile):
        return found
    return {"person": asked.person, "message": asked.message, "prompt": found}


def drop_message(engine: Engine, asked: q.DropMessages) -> dict[str, Any]:
    """Remove one message."""
    return {"dropped": engine.drop_messages(asked.id)}


serve(router, q.AddMessages, pool="answers", write=True, create=True)
serve(router, q.ReadMessage, path="/v1/messages/{message:path}")
serve(router, q.DropMessages, path="/v1/messages/{message:path}", run=drop_message, write=True)
serve(router, q.Channels)
serve(router, q.Window)
serve(router, q.Profile, path="/v1/profile/{person:path}", run=run_style_verb, pool="answers")
serve(router, q.StylePrompt, run=run_style_verb, pool="answers")
