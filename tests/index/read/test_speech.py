"""Recordings: what is said becomes a document whose citations name the second; captions do without a model."""

from pathlib import Path

import pytest

from clew import Engine, Settings
from clew.core.errors import SourceError
from clew.core.settings import IngestionConfig, RerankerConfig
from clew.core.time import find_second, format_seconds, select_times
from clew.index.read import read_file
from clew.index.read.office import recordings
from clew.index.read.office.recordings import Said, build_transcript_document, is_speech_installed, read_speech
from clew.surface.cli.commands.chat import format_source

TALK = Path(__file__).parent / "recordings" / "talk.ogg"
needs_speech = pytest.mark.skipif(not is_speech_installed(), reason="faster-whisper or its model is not installed")
FAST = Settings(
    reranker=RerankerConfig(name="overlap"),
    ingestion=IngestionConfig(max_read_seconds=200),  # beside other tests
)
CAPTIONS = """WEBVTT

00:00:01.000 --> 00:00:04.000
<v Ada>Welcome to the weekly meeting.

00:01:23.500 --> 00:01:28.000
<v Tom>The vault keys are rotated every ninety days.
"""


@needs_speech
@pytest.mark.slow
def test_a_spoken_file_is_searched_and_cited_at_its_second(tmp_path: Path) -> None:
    (tmp_path / "talk.ogg").write_bytes(TALK.read_bytes())
    with Engine.open(tmp_path / "team.clew", embedder="hashed", settings=FAST) as engine:
        assert engine.add(str(tmp_path)).failed == ()
        (hit,) = engine.search("when is lunch served in the canteen?")
        assert "Lunch is served at noon in the canteen." in hit.chunk.text
        assert hit.chunk.headings[-1].startswith("00:00:00–00:00:1")
        (cited,) = engine.ask("When is lunch served?").citations
    assert "Lunch is served at noon" in cited.quote
    assert cited.second == 8  # it is said from 8.5 on
    assert "talk.ogg  00:00:08" in format_source(cited)


@needs_speech
def test_a_file_without_speech_and_one_that_is_not_a_recording(tmp_path: Path) -> None:
    for name, data, reason in (("a.wav", make_silence(), "no speech was recognised"), ("b.mp3", b"x" * 99, "not a")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(SourceError, match=reason):
            read_file(tmp_path / name, uri=name)


@needs_speech
def test_a_recording_is_read_within_the_limits(tmp_path: Path) -> None:
    (tmp_path / "talk.ogg").write_bytes(TALK.read_bytes())
    settings = Settings(ingestion=IngestionConfig(max_read_seconds=0.1))
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        (failed,) = engine.add(str(tmp_path / "talk.ogg")).failed
    assert "max_read_seconds" in failed.reason


def test_without_the_extra_a_recording_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "find_spec", lambda _: None)
    with pytest.raises(SourceError, match=r"clew\[speech\]"):
        read_speech(b"", uri="talk.ogg", name="talk.ogg")


def test_captions_are_cited_at_their_second(tmp_path: Path) -> None:
    (tmp_path / "meeting.vtt").write_text(CAPTIONS)
    with Engine.open(tmp_path / "team.clew", embedder="hashed", settings=FAST) as engine:
        engine.add(str(tmp_path / "meeting.vtt"))
        (cited,) = engine.ask("How often are the vault keys rotated?").citations
    assert cited.second == 83
    assert format_source(cited).endswith("meeting.vtt  00:01:23")


def test_a_transcript_is_cut_at_pauses_and_sentence_ends() -> None:
    said: list[Said] = [(0.0, 2.0, "# One."), (2.5, 4.0, "Two."), (9.0, 11.0, "Three.")]
    document = build_transcript_document(said, uri="a.wav", name="a.wav", source_format="wav")
    assert document.text == "\\# One. Two.\n\nThree."
    assert [section.label for section in document.sections] == ["00:00:00–00:00:04", "00:00:09–00:00:11"]
    assert [document.text[at : at + 4] for at, _ in document.meta["times"]] == ["\\# O", "Two.", "Thre"]
    long: list[Said] = [(float(at), at + 1.0, "word " * 30 + "end.") for at in range(20)]
    assert len(build_transcript_document(long, uri="a.wav", name="a.wav", source_format="wav").sections) == 5


def test_times_of_a_span() -> None:
    times = [[0, 0.0], [10, 4.5], [25, 9.0]]
    assert select_times(times, 12, 30) == [[0, 4.5], [13, 9.0]]
    assert select_times(times, 0, 10) == [[0, 0.0]]
    assert [find_second(times, at) for at in (0, 9, 10, 99)] == [0, 0, 4, 9]
    assert find_second([], 5) is None
    assert format_seconds(3683.9) == "01:01:23"


def make_silence() -> bytes:
    import io
    import wave

    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 16_000, 0, "NONE", ""))
        sound.writeframes(bytes(32_000))
    return file.getvalue()
