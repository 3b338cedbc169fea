"""Subtitles and transcripts: the cues of one speaker in a row become one paragraph, with its time."""

import re
from html import unescape

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.blocks import Block, Page, document, one_line
from clew.index.read.outline import title_of
from clew.index.read.web.html import spelled

LONGEST = 600  # characters of a paragraph, after which the next cue begins a new one
_TIME = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}\s*-->")
_VOICE = re.compile(r"<v(?:\.[\w.]+)?[ \t]+([^>]*)>")
_TAG = re.compile(r"</?[^<>\n]*>")
_SAID = '.?!…。！？"”'


def captions(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of a WebVTT or SRT file; a paragraph says when it begins and, where known, who speaks."""
    blocks: list[Block] = []
    speaker = started = ""
    words: list[str] = []
    cues = 0
    for cue in re.split(r"\n[ \t]*\n", re.sub(r"\r\n?", "\n", spelled(data))):
        time = _TIME.search(cue)
        if time is None:
            continue
        cues += 1
        for voice, text in _said(cue[time.end() :].partition("\n")[2]):
            size = sum(map(len, words))
            if voice != speaker or size > 2 * LONGEST or (size > LONGEST and words[-1][-1:] in _SAID):
                blocks += _paragraph(started, speaker, words)
                words = []
            if not words:
                speaker = voice
                started = f"{int(time[1] or 0):02}:{int(time[2]):02}:{time[3]}"
            words.append(text)
    blocks += _paragraph(started, speaker, words)
    if not cues:
        raise SourceError(uri, "is not a transcript that can be read: it has no cues with times")
    return document(Page(blocks, title_of(name)), uri=uri, name=name, source_format="vtt")


def _said(body: str) -> list[tuple[str, str]]:
    """What each voice of a cue says."""
    parts = _VOICE.split(body)
    voices = [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    plain = [(one_line(unescape(voice)), one_line(unescape(_TAG.sub("", text)))) for voice, text in voices]
    return [(voice, text) for voice, text in plain if text]


def _paragraph(started: str, speaker: str, words: list[str]) -> list[Block]:
    said = f"{speaker}: " if speaker else ""
    return [Block("paragraph", f"[{started}] {said}{' '.join(words)}")] if words else []
