"""How an answer is told: sentences as they come, then its sources by number, and on stderr what was taken out."""

import sys
from typing import TYPE_CHECKING, Any

from clew.surface import to_json as shapes
from clew.surface.cli import render

if TYPE_CHECKING:
    from clew.core.answer import Answer
    from clew.core.cite import Citation
    from clew.core.trace import Trace


class Voice:
    """Prints sentences as they are checked, on a terminal and in a pipe alike."""

    def __init__(self) -> None:
        self._last = ""

    def hear(self, sentence: str) -> None:
        """Prints a sentence at once."""
        self._last = sentence
        text = sentence.translate(render.CONTROL) if sys.stdout.isatty() else sentence
        print(text, end="", flush=True)

    def finish(self, answer: "Answer") -> None:
        """Ends the last line; an answer of which nothing was heard is printed whole."""
        if not self._last:
            render.put_text(answer.text)
        elif not self._last.endswith("\n"):
            print()


def put_answer(answer: "Answer", voice: Voice) -> None:
    """What follows the words of an answer."""
    voice.finish(answer)
    lines = dict.fromkeys(f"[{answer.mark(place)}] {place_of(each)}" for place, each in enumerate(answer.citations))
    if lines:
        print()
    for line in lines:
        render.put((line, "dim"))
    for each in answer.removed:
        said = "cited anew" if each.kept else "removed"
        render.put((f"{said}: ", "yellow"), (f"{' '.join(each.text.split())} ({each.reason})", ""), err=True)
    if answer.fault:
        render.put((f"clew: this is not the whole answer: {answer.fault}", "red"), err=True)
    if answer.reason:
        render.put((answer.reason if answer.found else f"nothing found: {answer.reason}", "yellow"), err=True)


def put_step(each: "Trace") -> None:
    """What an agent did just now with one of its tools, on stderr."""
    given = ", ".join(f"{name}={value!r}" for name, value in each.notes.items() if name != "error")
    came = f"error: {each.notes['error']}" if "error" in each.notes else f"{each.out} found"
    render.put((f"{each.name}({given}): {came}, {each.ms:.0f} ms", "dim"), err=True)


def place_of(of: "Citation") -> str:
    """Where a quote stands, for a reader: the title, the address, and the page or who said it and when."""
    at = f"{of.at:%Y-%m-%d %H:%M}" if of.at else ""
    page = f"page {of.page}" if of.page is not None else ""
    said = ", ".join(filter(None, (of.author, at))) if of.message else ""
    named = of.title or of.uri or of.document
    return "  ".join(filter(None, (" ".join(named.split()), of.uri if of.uri != named else "", page, said)))


def shape(of: "Answer", *, traced: "Trace") -> dict[str, Any]:
    """An answer as JSON."""
    return {
        "question": of.question,
        "text": of.text,
        "found": of.found,
        "confidence": of.confidence,
        "reason": of.reason,
        "fault": of.fault,
        "citations": [{"number": of.mark(place), **shapes.citation(each)} for place, each in enumerate(of.citations)],
        "removed": [{"text": each.text, "reason": each.reason, "kept": each.kept} for each in of.removed],
        "usage": {
            "calls": of.usage.calls,
            "input_tokens": of.usage.input_tokens,
            "output_tokens": of.usage.output_tokens,
            "cached": of.usage.cached,
        },
        "trace": shapes.trace(traced),
    }
