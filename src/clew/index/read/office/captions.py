"""WebVTT and SRT subtitles: consecutive cues of one speaker become one paragraph with its start time."""

import re
from dataclasses import replace
from html import unescape

from clew.core.errors import SourceError
from clew.core.recording import TIMES
from clew.core.types import Document
from clew.index.read.blocks import ParsedSource, SourceBlock, build_document, collapse_whitespace
from clew.index.read.load import decode_with_fallbacks
from clew.index.read.outline import make_title_from_file_name

MAX_PARAGRAPH_CHARS = 600  # after which the end of a sentence ends the paragraph
_CUE_TIME = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}\s*-->")
_PARAGRAPH_TIME = re.compile(r"^\[(\d{2,4}):(\d{2}):(\d{2})\] ", re.MULTILINE)
_VOICE = re.compile(r"<v(?:\.[\w.]+)?[ \t]+([^>]*)>")
_TAG = re.compile(r"</?[^<>\n]*>")
_SENTENCE_ENDS = '.?!…。！？"”'


def read_captions(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of a WebVTT or SRT file; each paragraph begins with its time and, if known, the speaker."""
    blocks: list[SourceBlock] = []
    speaker = started = ""
    words: list[str] = []
    cues = 0
    for cue in re.split(r"\n[ \t]*\n", re.sub(r"\r\n?", "\n", decode_with_fallbacks(data))):
        time = _CUE_TIME.search(cue)
        if time is None:
            continue
        cues += 1
        for voice, text in _split_cue_by_speaker(cue[time.end() :].partition("\n")[2]):
            size = sum(map(len, words))
            if (
                voice != speaker
                or size > 2 * MAX_PARAGRAPH_CHARS
                or (size > MAX_PARAGRAPH_CHARS and words[-1][-1:] in _SENTENCE_ENDS)
            ):
                blocks += _make_speech_paragraph(started, speaker, words)
                words = []
            if not words:
                speaker = voice
                started = f"{int(time[1] or 0):02}:{int(time[2]):02}:{time[3]}"
            words.append(text)
    blocks += _make_speech_paragraph(started, speaker, words)
    if not cues:
        raise SourceError(uri, "is not a readable transcript: it has no cues with times")
    document = build_document(
        ParsedSource(blocks, make_title_from_file_name(name)), uri=uri, name=name, source_format="vtt"
    )
    times = [
        [mark.start(), 3600 * int(mark[1]) + 60 * int(mark[2]) + int(mark[3])]
        for mark in _PARAGRAPH_TIME.finditer(document.text)
    ]
    return replace(document, meta={**document.meta, TIMES: times})


def _split_cue_by_speaker(body: str) -> list[tuple[str, str]]:
    """The speaker and text of each voice in a cue."""
    parts = _VOICE.split(body)
    voices = [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    plain = [
        (collapse_whitespace(unescape(voice)), collapse_whitespace(unescape(_TAG.sub("", text))))
        for voice, text in voices
    ]
    return [(voice, text) for voice, text in plain if text]


def _make_speech_paragraph(started: str, speaker: str, words: list[str]) -> list[SourceBlock]:
    prefix = f"{speaker}: " if speaker else ""
    return [SourceBlock("paragraph", f"[{started}] {prefix}{' '.join(words)}")] if words else []
