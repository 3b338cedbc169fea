"""Chat exports made to hurt whoever reads them: what `add` must survive."""

import json
from collections.abc import Sequence
from typing import Any

from tests.hostile import make_archive

_MAIL = b"From ann@example.com Mon Jan  1 10:00:00 2024\nFrom: ann@example.com\nMessage-ID: <%d@x>\nSubject: Keys\n"


def make_hostile_exports(*, size: int) -> dict[str, bytes]:
    """Exports that are small or well packed and ask for much, by name; `size` is how often their parts are repeated."""
    return {
        **_make_mailboxes(size),
        **_make_whatsapp_chats(size),
        **_make_telegram_chats(size),
        **_make_zulip_exports(size),
        **_make_slack_exports(size),
        "line.jsonl": _write_lines([{"text": "x" * 10 * size, "author": "ann", "channel": "yard", "at": "2024-01-01"}]),
        "lines.jsonl": _write_lines(
            {"text": "<b>" * size, "author": "ann", "channel": "yard", "at": "2024-01-01"} for _ in range(5)
        ),
        "deep.jsonl": _write_lines([{"text": "Keys.", "author": "ann", "channel": "yard"}])
        + b'{"text": '
        + b"[" * size,
        "channels.jsonl": _write_lines(
            {"text": "Keys.", "author": "ann", "channel": f"c{number}", "id": number} for number in range(size // 100)
        ),
        "discord.json": json.dumps(
            {
                "guild": {"id": "1"},
                "channel": {"id": "2", "name": "yard"},
                "messages": [{"id": "1", "content": "<:" * size + "<@" * size, "timestamp": "2024-01-01T10:00:00Z"}],
            }
        ).encode(),
        "guild.json": b'{"guild": [' + b"[]," * 50 * size + b"[]]}",
        "skipped.json": b'{"about": [' + b"[]," * 20 * size + b"[]]}",
    }


def _make_mailboxes(many: int) -> dict[str, bytes]:
    html = b"Content-Type: text/html\n\n"
    nested = b"".join(b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (n, n) for n in range(200))
    part = b"--b199\n" + b"Content-Type: text/plain\n\nKeys.\n"
    return {
        "cells.mbox": _MAIL % 1 + html + b"<table><tr>" + b"<td rowspan=1000 colspan=1000>a" * (many // 20),
        "tags.mbox": _MAIL % 1 + html + b"<b>" * many,
        "nested.mbox": _MAIL % 1 + nested + part * (many // 10),
        "deep.mbox": _MAIL % 1 + b"".join(b"Content-Type: message/rfc822\n\n" for _ in range(many // 10)),
        "line.mbox": _MAIL % 1 + b"\n" + b"x" * 10 * many,
        "headers.mbox": _MAIL % 1 + b"".join(b"X-%d: y\n" % n for n in range(many)) + b"\nKeys.\n",
        "folded.mbox": _MAIL % 1 + b"Subject: a\n" + b" =?utf-8?q?b?=\n" * many + b"\nKeys.\n",
        "addresses.mbox": _MAIL % 1 + b"From: " + b"a <" * many + b"\nDate: " + b"(" * many + b"\n\nKeys.\n",
        "references.mbox": _MAIL % 1 + b"References: " + b"<a@b> " * many + b"\n\nKeys.\n",
        "wrote.mbox": _MAIL % 1 + b"In-Reply-To: <a@b>\n\n" + b"On Mon, Ann wrote:\n" * (many // 10),
    }


def _make_whatsapp_chats(many: int) -> dict[str, bytes]:
    begin = "01/02/2024, 10:00 - Ann: "
    texts = {
        "line": "x" * 10 * many,
        "omitted": "a.ab" * many,
        "attached": "<attached:" + " " * many,
        "edited": "a" + " " * many + "a",
        "marks": "\u200e" * many,
        "authors": "\n".join(f"{begin}{'y' * 90}:" for _ in range(many // 50)),
    }
    return {f"whatsapp-{name}.txt": f"{begin}Keys.\n{begin}{text}\n".encode() for name, text in texts.items()}


def _make_telegram_chats(many: int) -> dict[str, bytes]:
    def write(text: Any) -> bytes:
        row = {"id": 1, "type": "message", "date": "2024-01-01T10:00:00", "from": "Ann", "text": text}
        return json.dumps({"name": "yard", "type": "private_group", "id": 1, "messages": [row]}).encode()

    return {
        "telegram-entities.json": write([{"type": "link", "text": "a", "href": "b"}] * many),
        "telegram-value.json": write([])[:-4] + b"[" + b"[]," * 50 * many + b"[]]}]}",
        "telegram-deep.json": write("Keys.")[:-2] + b"," + b'{"a":' * many,
    }


def _make_zulip_exports(many: int) -> dict[str, bytes]:
    realm = {
        "zerver_stream": [{"id": 1, "name": "yard"}],
        "zerver_recipient": [{"id": 1, "type": 2, "type_id": 1}],
        "zerver_userprofile": [{"id": 1, "full_name": "Ann"}],
    }

    def write(**fields: str) -> bytes:
        row = {"id": 1, "sender": 1, "recipient": 1, "subject": "keys", "date_sent": 1704100000, **fields}
        return make_archive(
            {"realm.json": json.dumps(realm), "messages-000001.json": json.dumps({"zerver_message": [row]})}
        )

    return {
        "zulip-brackets.zip": write(content="[" * 5 * many),
        "zulip-links.zip": write(content="[a](http://b" * many),
        "zulip-stars.zip": write(content="@**" * many + "#**" * many),
        "zulip-html.zip": write(rendered_content="<table><tr>" + "<td rowspan=1000 colspan=1000>a" * (many // 20)),
    }


def _make_slack_exports(many: int) -> dict[str, bytes]:
    def write(*rows: dict[str, Any], more: Sequence[str] = ()) -> bytes:
        days = [{"type": "message", "ts": f"170410000{n}.0001", "user": "U1", **row} for n, row in enumerate(rows)]
        tables = {"users.json": '[{"id": "U1", "name": "ann"}]', "channels.json": '[{"id": "C1", "name": "general"}]'}
        return make_archive({**tables, "general/2024-01-01.json": json.dumps(days), **dict.fromkeys(more, "[]")})

    block: dict[str, Any] = {"type": "text", "text": "Keys."}
    for _ in range(300):
        block = {"type": "rich_text_section", "text": "a" * 100, "elements": [block]}
    return {
        "slack-angles.zip": write({"text": "<" * many + "a|b" + ">" * many}, {"text": "<a|" * many + "b>" * many}),
        "slack-marks.zip": write({"text": "*_~" * many + "~_*" * many}, {"text": "&amp;" * many}),
        "slack-blocks.zip": write({"text": "", "blocks": [block] * (many // 1_000 + 1)}),
        "slack-entries.zip": write({"text": "Keys."}, more=[f"a{n}/2024-01-01.json" for n in range(many // 5)]),
        "slack-files.zip": write({"text": "Keys."}, more=[f"general/{n}.json" for n in range(many // 2)]),
    }


def _write_lines(rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
