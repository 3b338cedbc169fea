"""Text exports: WhatsApp in the formats of many phones, and mailboxes."""

import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.index.chat import ChatExport, detect_export
from clew.index.chat.mbox import strip_quoted_lines
from clew.index.chat.normalise import DELETED, EDITED, EMPTY, MEDIA, NOTICES, REPEATED, UNDATED, UNREADABLE, UTC_ASSUMED
from clew.index.chat.whatsapp import ORDER_ASSUMED

NEW_YEARS_EVE = datetime(2023, 12, 31, 21, 41, tzinfo=UTC)


def open_export(path: Path, kind: str) -> ChatExport:
    found = detect_export(path)
    assert found is not None
    assert found.kind == kind
    return found


def list_channels(whole: ChatExport) -> dict[str, list[Message]]:
    once = {name: list(messages) for name, messages in whole.read_channels()}
    notes = dict(whole.notes)
    assert once == {name: list(messages) for name, messages in whole.read_channels()}
    assert notes == whole.notes
    return once


def read_chat(place: Path, text: str, name: str = "WhatsApp Chat with Ann.txt") -> list[Message]:
    (place / name).write_text(text, encoding="utf-8")
    (messages,) = list_channels(open_export(place / name, "whatsapp")).values()
    return messages


@pytest.mark.parametrize(
    "line",
    [
        "12/31/23, 9:41 PM - Ann: hi",
        "12/31/23, 9:41\u202fPM - Ann: hi",
        "31/12/2023, 21:41 - Ann: hi",
        "31/12/23, 9:41 p.m. - Ann: hi",
        "31/12/23, 9:41 p. m. - Ann: hi",
        "31/12/2023 21:41 - Ann: hi",
        "31/12/2023 à 21:41 - Ann: hi",
        "31-12-2023 21:41 - Ann: hi",
        "2023-12-31, 21:41 - Ann: hi",
        "2023/12/31 下午9:41 - Ann: hi",
        "2023. 12. 31. 오후 9:41 - Ann: hi",
        "[31.12.23, 21:41:00] Ann: hi",
        "\u200e[12/31/23, 9:41:00\u202fPM] Ann: hi",
        "[31.12.2023 klo 21.41.00] Ann: hi",
        "\ufeff[31/12/2023, 21:41:00] ~\u00a0Ann: hi",
        "31/12/2023, 21:41 - \u202aAnn\u202c: hi",
    ],
)
def test_the_forms_of_dates(tmp_path: Path, line: str) -> None:
    (message,) = read_chat(tmp_path, f"{line}\n", "_chat.txt")
    assert (message.author, message.text, message.at) == ("Ann", "hi", NEW_YEARS_EVE)


ANDROID = """\
01/02/2024, 09:00 - Messages and calls are end-to-end encrypted. No one outside of this chat can read them.
01/02/2024, 09:00 - Bob created group "Tea: green"
01/02/2024, 09:01 - Ann: First
second line

12/31/23 is a date: in a message
01/02/2024, 09:01 - Bob: <Media omitted>
01/02/2024, 09:01 - Bob: IMG-20240201-WA0001.jpg (file attached)
look at this
01/02/2024, 09:01 - Ann: This message was deleted
01/02/2024, 09:02 - Bob changed the subject from "Tea: green" to "Tea: black"
01/02/2024, 09:02 - Ann: at 10:30: the usual <This message was edited>
01/02/2024, 09:02 - Ann: null
13/02/2024, 09:00 - +49 170 1234567: First
"""


def test_an_android_chat(tmp_path: Path) -> None:
    messages = read_chat(tmp_path, ANDROID, "WhatsApp Chat with Tea.txt")
    assert [(each.author, each.text) for each in messages] == [
        ("Ann", "First\nsecond line\n\n12/31/23 is a date: in a message"),
        ("Bob", "[file: IMG-20240201-WA0001.jpg]\nlook at this"),
        ("Ann", "at 10:30: the usual"),
        ("+49 170 1234567", "First"),
    ]
    assert messages[0].at == datetime(2024, 2, 1, 9, 1, tzinfo=UTC)
    assert {each.channel for each in messages} == {"Tea"}
    whole = open_export(tmp_path / "WhatsApp Chat with Tea.txt", "whatsapp")
    list_channels(whole)
    assert whole.notes == {NOTICES: 3, MEDIA: 1, DELETED: 1, EDITED: 1, EMPTY: 1, UTC_ASSUMED: 4}


def test_an_iphone_chat(tmp_path: Path) -> None:
    text = (
        "[13.02.24, 09:00:01] Tea: \u200eMessages and calls are end-to-end encrypted.\n"
        "[13.02.24, 09:00:02] Ann: \u200eimage omitted\n"
        "\u200e[13.02.24, 09:00:03] Ann: \u200e<attached: 00000003-PHOTO.jpg>\n"
        "[13.02.24, 09:00:04] Ann: plan.pdf • \u200e3 pages \u200edocument omitted\n"
        "[13.02.24, 09:00:05] Ann: \u200eThis message was deleted.\n"
        "[13.02.24, 09:00:06] Ann: <https://a.example> and a.py (the old one)\n"
    )
    (tmp_path / "Tea Club").mkdir()
    messages = read_chat(tmp_path / "Tea Club", text, "_chat.txt")
    assert [each.text for each in messages] == [
        "[file: 00000003-PHOTO.jpg]",
        "[file: plan.pdf]",
        "<https://a.example> and a.py (the old one)",
    ]
    assert messages[0].channel == "Tea Club"
    assert list_channels(open_export(tmp_path / "Tea Club", "whatsapp"))["Tea Club"] == messages
    with zipfile.ZipFile(tmp_path / "WhatsApp Chat - Tea.zip", "w") as archive:
        archive.writestr("_chat.txt", text)
        archive.writestr("00000003-PHOTO.jpg", b"\xff\xd8")
    (zipped,) = list_channels(open_export(tmp_path / "WhatsApp Chat - Tea.zip", "whatsapp")).values()
    assert [(each.text, each.channel) for each in zipped] == [(each.text, "Tea") for each in messages]


def test_the_order_of_day_and_month(tmp_path: Path) -> None:
    def read_dates(*lines: str) -> list[str]:
        return [f"{each.at:%m-%d}" for each in read_chat(tmp_path, "".join(f"{line} - Ann: hi\n" for line in lines))]

    assert read_dates("01/02/2024, 09:00", "13/02/2024, 09:00") == ["02-01", "02-13"]
    assert read_dates("1/2/24, 9:00 AM", "1/13/24, 9:00 AM") == ["01-02", "01-13"]
    # No day is over 12: the order in which the chat runs forward.
    assert read_dates("11/1/24, 9:00 AM", "12/1/24, 9:00 AM", "1/2/24, 9:00 AM") == ["01-11", "01-12", "02-01"]
    assert read_dates("01/11/24, 09:00", "01/12/24, 09:00", "02/01/24, 09:00") == ["01-11", "01-12", "02-01"]
    # Nothing tells: the form does, and that is noted.
    assert read_dates("1/2/24, 9:00 AM") == ["01-02"]
    assert read_dates("01/02/24, 09:00") == ["02-01"]
    whole = open_export(tmp_path / "WhatsApp Chat with Ann.txt", "whatsapp")
    list_channels(whole)
    assert whole.notes == {UTC_ASSUMED: 1, ORDER_ASSUMED.format("day first"): 1}
    # A date that fits no calendar is kept without a time.
    (first, second) = read_chat(tmp_path, "30/01/2024, 09:00 - Ann: a\n31/02/2024, 09:00 - Ann: b\n")
    assert (first.text, second.text, second.at) == ("a", "b", None)


def test_ids_stay_when_the_chat_grows_and_the_order_within_a_minute_is_kept(tmp_path: Path) -> None:
    text = "".join(f"13/02/2024, 09:00 - Ann: {word}\n" for word in ("same", "same", *"zyxwvutsrqponm"))
    before = read_chat(tmp_path, text)
    assert [each.text for each in before] == ["same", "same", *"zyxwvutsrqponm"]
    assert len({each.id for each in before}) == len(before)
    after = read_chat(tmp_path, f"{text}13/02/2024, 09:00 - Bob: same\n14/02/2024, 09:00 - Ann: more\n")
    assert after[: len(before)] == before


def test_logs_and_other_texts_are_no_chat(tmp_path: Path) -> None:
    path = tmp_path / "server.txt"
    for text in (
        "2023-12-31 21:41:07 - app: started\n",
        "[2023-12-31 21:41:07] app: started\n",
        "2023/12/31 21:41:07 - app: started\n",
        "Notes of 31/12/2023, 21:41 - Ann: hi\n",
        "31/12/2023, 21:41 - no name, no colon\n",
        "",
    ):
        path.write_text(text)
        assert detect_export(path) is None, text


def test_a_chat_in_another_encoding_says_how_to_save_it(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_bytes(b"31/12/2023, 21:41 - Ann: caf\xe9\n")
    with pytest.raises(SourceError, match="is not UTF-8 text; save it as UTF-8"):
        list_channels(open_export(path, "whatsapp"))
    path.write_bytes("31/12/2023, 21:41 - Ann: café\n".encode("utf-16"))
    assert list_channels(open_export(path, "whatsapp"))["chat"][0].text == "café"


def test_a_name_may_hold_the_words_of_a_notice(tmp_path: Path) -> None:
    head = "31/12/2023, 21:41 - "
    text = f"{head}Added Value Ltd: the invoice is late\n{head}Ann added: Bob\n{head}Ann: paid\n"
    assert [(each.author, each.text) for each in read_chat(tmp_path, text)] == [
        ("Added Value Ltd", "the invoice is late"),
        ("Ann", "paid"),
    ]


def test_a_chat_of_nothing_but_notices_says_so(tmp_path: Path) -> None:
    path = tmp_path / "_chat.txt"
    path.write_text("31/12/2023, 21:41 - Ann: <Media omitted>\n")
    with pytest.raises(SourceError, match="whatsapp export without messages"):
        list_channels(open_export(path, "whatsapp"))


@pytest.mark.slow
def test_ten_thousand_lines(tmp_path: Path) -> None:
    text = "".join(
        f"{1 + n // 500:02}/02/2024, {n % 500 // 60:02}:{n % 500 % 60:02} - Ann: word {n}\n" for n in range(10_000)
    )
    assert [each.text for each in read_chat(tmp_path, text)] == [f"word {n}" for n in range(10_000)]


# Mailboxes


def make_mail(number: int, body: str, *, head: str = "", subject: str = "Keys", date: str | None = None) -> str:
    date = f"Date: Mon, 01 Jan 2024 10:{number:02}:00 +0100\n" if date is None else date
    return (
        f"From ann@example.org Mon Jan  1 09:{number:02}:00 2024\n"
        f"From: Ann Lee <ann@example.org>\nSubject: {subject}\n{date}"
        f"Message-ID: <{number}@example.org>\n{head}\n{body}\n\n"
    )


def write_mbox(place: Path, *mails: str, name: str = "team.mbox") -> ChatExport:
    (place / name).write_bytes("".join(mails).encode("utf-8"))
    return open_export(place / name, "mbox")


def test_a_mailbox_by_list_and_thread(tmp_path: Path) -> None:
    listed = 'List-Id: "The team" <team.example.org>\n'
    reply = f"{listed}In-Reply-To: <1@example.org>\nReferences: <0@example.org> <1@example.org>\n"
    lost = f"{listed}In-Reply-To: <gone@example.org>\nReferences: <1@example.org> <gone@example.org>\n"
    quoted = "Agreed.\n\nOn Mon, 1 Jan 2024 at 10:01, Ann Lee <ann@example.org>\nwrote:\n\n> Rotate them?\n> Weekly?\n"
    whole = write_mbox(
        tmp_path,
        make_mail(3, quoted, head=lost, subject="Re: Keys"),
        make_mail(1, "Rotate them?\n\n>From here on weekly.\n\nFrom experience at 10:30 it works.\nAnn", head=listed),
        make_mail(2, "> Rotate them?\n\nYes.\n", head=reply, subject="Re: Keys"),
        make_mail(2, "again", head=reply),
        make_mail(4, "A page", subject="=?utf-8?q?Caf=C3=A9?="),
        make_mail(5, "> all quoted\n", head=reply, subject="Re: Keys"),
    )
    found = list_channels(whole)
    assert list(found) == ["team", "team.example.org"]
    first, second, third = found["team.example.org"]
    assert first == Message(
        "Keys\n\nRotate them?\n\nFrom here on weekly.\n\nFrom experience at 10:30 it works.\nAnn",
        author="Ann Lee",
        at=datetime(2024, 1, 1, 9, 1, tzinfo=UTC),
        id="1@example.org",
        channel="team.example.org",
    )
    assert (second.text, second.reply_to) == ("Yes.", first.id)
    assert (third.text, third.reply_to) == ("Agreed.", first.id)
    assert found["team"][0].text == "Café\n\nA page"
    assert whole.notes == {REPEATED: 1, EMPTY: 1}


def test_parts_attachments_and_odd_heads_of_mails(tmp_path: Path) -> None:
    parts = (
        "--x\nContent-Type: text/html; charset=utf-8\n\n<p>New <b>plan</b></p><p>On Mon, Bob wrote:</p>"
        "<blockquote>old plan</blockquote>\n--x\n"
        'Content-Type: application/pdf\nContent-Disposition: attachment; filename="plan.pdf"\n\nJVBERi0=\n--x--\n'
    )
    mixed = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\nIn-Reply-To: <1@example.org>\n"
    latin = "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n"
    whole = write_mbox(
        tmp_path,
        make_mail(2, parts, head=mixed, subject="Re: Keys"),
        make_mail(3, "caf=E9", head=latin),
        make_mail(4, "no date of its own", date="Date: some day\n"),
        make_mail(5, "no zone", date="Date: Mon, 01 Jan 2024 10:05:00 -0000\n"),
        "From - Mon Jan  1 10:00:00 2024\nX-Odd: 1\n\nno head\n\n",
        "From nobody Mon Jan  1 10:59:00\nFrom: Bob\nSubject: lost in time\n\nwhen?\n\n",
    )
    found = list_channels(whole)["team"]
    assert [each.text for each in found] == [
        "New plan\n[file: plan.pdf]",
        "Keys\n\ncafé",
        "Keys\n\nno date of its own",
        "Keys\n\nno zone",
        "lost in time\n\nwhen?",
    ]
    assert found[0].reply_to == "1@example.org"
    assert found[2].at == datetime(2024, 1, 1, 9, 4, tzinfo=UTC)
    assert (found[4].author, found[4].at) == ("Bob", None)
    assert whole.notes == {UTC_ASSUMED: 2, UNDATED: 1, UNREADABLE: 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes.\n\n-----Original Message-----\nFrom: Ann\nSent: Monday\n\nOld", "Yes."),
        ("Yes.\n\nFrom: Ann <a@a.example>\nDate: Monday\nTo: Bob\n\nOld", "Yes."),
        ("Am 01.01.24 um 10:00 schrieb Ann:\n> alt\nNeu", "Neu"),
        ("Ann wrote:\n> one\nfirst answer\n> two\nsecond answer", "first answer\nsecond answer"),
        ("As she wrote:\nkeys are keys", "As she wrote:\nkeys are keys"),
        ("From: here on it is ours", "From: here on it is ours"),
        ("On call we\nwrote: nothing", "On call we\nwrote: nothing"),
    ],
)
def test_what_is_new_in_a_reply(text: str, expected: str) -> None:
    assert strip_quoted_lines(text).strip() == expected


@pytest.mark.slow
def test_ten_thousand_mails_are_read_one_at_a_time(tmp_path: Path) -> None:
    mails = (
        f"From a@example.org Mon Jan  1 09:00:00 2024\nFrom: Ann\nMessage-ID: <{n}@example.org>\nSubject: s\n"
        f"Date: Mon, 01 Jan 2024 {9 - n // 3600:02}:{n // 60 % 60:02}:{n % 60:02} +0000\n\nbody {n}\n\n"
        for n in range(10_000)
    )
    whole = write_mbox(tmp_path, *mails)
    ((name, messages),) = whole.read_channels()
    assert name == "team"
    first = next(iter(messages))
    assert first.text == "s\n\nbody 7200"
    assert sum(1 for _ in messages) == 9_999


def test_texts_that_only_begin_like_a_mailbox_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in ("From here on at 10:30\nwe go north\n", "From: Ann\nTo: Bob\n\nhi\n", ""):
        path.write_text(text)
        assert detect_export(path) is None
    path = tmp_path / "single.eml"
    path.write_text(make_mail(1, "a mail by itself is a page"))
    assert detect_export(path) is None


def test_a_header_field_of_a_mail_is_decoded_within_a_limit(tmp_path: Path) -> None:
    """A subject of 60,000 encoded words takes gigabytes to decode."""
    subject = "=?utf-8?q?keys?= " * 60_000
    head = f"From a@b.c Mon Jan  1 10:00:00 2024\nFrom: a@b.c\nMessage-ID: <1@x>\nSubject: {subject}\n"
    whole = write_mbox(tmp_path, head + "\nLocks.\n")
    [[message]] = list_channels(whole).values()
    assert message.text.startswith("keys")
    assert message.text.endswith("Locks.")
    assert len(message.text) < 10_000
