"""Pictures of text: the lines that rapidocr recognises, in the order in which they are read.

Its models are in its package, so nothing is fetched; it is an extra because it brings OpenCV.
"""

import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.errors import DriverMissing, SourceError
from clew.core.types import Document
from clew.index.read.blocks import Block, Page, document
from clew.index.read.guard import sealed
from clew.index.read.outline import title_of

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp")
MISSING = "is a picture; its text is read by rapidocr, which is not here: pip install 'clew[ocr]'"
MAX_PIXELS = 60_000_000
SURE = 0.5  # the score that a line must reach
SAMPLE = 5  # lines that are asked which way up they are
_engine_lock = Lock()

Pixels = NDArray[np.uint8]


def has_ocr() -> bool:
    """Whether pictures can be read here."""
    return all(importlib.util.find_spec(name) is not None for name in ("rapidocr", "cv2"))


def picture(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of a picture: the text in it."""
    if not has_ocr():
        raise SourceError(uri, MISSING)
    with sealed(uri, what="picture"):
        frames = _frames(data)
        if not frames:
            raise SourceError(uri, "is not a picture that can be read: it is broken, or too large")
    blocks = [block for page, frame in enumerate(frames, 1) for block in recognised(frame, uri=uri, page=page)]
    if not blocks:
        raise SourceError(uri, "is a picture in which no text is recognised")
    meta = {"pages": len(frames), "extraction": "ocr"}
    return document(
        Page(blocks, title_of(name), meta), uri=uri, name=name, source_format=PurePath(name).suffix[1:].lower()
    )


def recognised(pixels: Pixels, *, uri: str, page: int) -> Iterator[Block]:
    """The lines of the picture as paragraphs, read the right way up however the page lies."""
    with sealed(uri, what="picture"), _engine_lock:
        found = _engine()(pixels, use_det=True, use_cls=True, use_rec=True)  # it remembers what was last asked
        if found.boxes is None or not found.txts:
            return
        keep = [at for at, score in enumerate(found.scores) if score >= SURE and found.txts[at].strip()]
        boxes = np.asarray([found.boxes[at] for at in keep], dtype=np.float64).reshape(-1, 4, 2)
        texts = [found.txts[at] for at in keep]
        upright = _upright(pixels, boxes)
    yield from _paragraphs(upright, texts, page)


def _frames(data: bytes) -> list[Pixels]:
    """The pictures of a file: a TIFF can hold several pages."""
    import cv2

    raw = np.frombuffer(data, dtype=np.uint8)
    is_read, frames = cv2.imdecodemulti(raw, cv2.IMREAD_COLOR)
    found: list[Any] = list(frames) if is_read else [cv2.imdecode(raw, cv2.IMREAD_COLOR)]
    return [frame for frame in found if frame is not None and 0 < frame.shape[0] * frame.shape[1] <= MAX_PIXELS]


@cache
def _engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ImportError as error:
        raise DriverMissing("pictures are read by rapidocr, which is not here: pip install 'clew[ocr]'") from error
    return RapidOCR(params={"Global.log_level": "error"})


def _upright(pixels: Pixels, boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The boxes as they stand when the page is turned the right way up: left, top, right, bottom of each."""
    high, wide = pixels.shape[:2]
    low, top = boxes.min(axis=1), boxes.max(axis=1)
    sides = top - low
    lies = bool(np.median(sides[:, 1] / np.maximum(sides[:, 0], 1)) > 1.5) if len(boxes) else False
    longest = np.argsort(-sides.max(axis=1))[:SAMPLE]
    turned = [_is_turned(pixels, low[at], top[at], lies) for at in longest]
    is_flipped = sum(turned) * 2 > len(turned)
    xs, ys = boxes[..., 0], boxes[..., 1]
    if lies:
        xs, ys = (high - ys, xs) if is_flipped else (ys, wide - xs)
    elif is_flipped:
        xs, ys = wide - xs, high - ys
    return np.stack([xs.min(axis=1), ys.min(axis=1), xs.max(axis=1), ys.max(axis=1)], axis=1)


def _is_turned(pixels: Pixels, low: NDArray[np.float64], top: NDArray[np.float64], lies: bool) -> bool:
    """Whether the line in the box stands on its head."""
    (left, upper), (right, lower) = (np.maximum(corner, 0).astype(int) for corner in (low, top))
    cut = np.ascontiguousarray(np.rot90(pixels[upper:lower, left:right]) if lies else pixels[upper:lower, left:right])
    if not cut.size:
        return False
    said = _engine()(cut, use_det=False, use_cls=True, use_rec=False)
    results: Any = getattr(said, "cls_res", None)
    return bool(results) and str(results[0][0]) == "180"


def _paragraphs(boxes: NDArray[np.float64], texts: list[str], page: int) -> Iterator[Block]:
    """Lines by their height on the page, those side by side from the left; a wide gap begins a paragraph."""
    if not texts:
        return
    heights = boxes[:, 3] - boxes[:, 1]
    usual = float(np.median(heights))
    order = sorted(range(len(texts)), key=lambda at: (boxes[at, 1] + boxes[at, 3]) / 2)
    rows: list[list[int]] = []
    for at in order:
        middle = (boxes[at, 1] + boxes[at, 3]) / 2
        if rows and middle < boxes[rows[-1][0], 3] - usual * 0.2:
            rows[-1].append(at)
        else:
            rows.append([at])
    lines: list[str] = []
    bottom = 0.0
    for row in rows:
        if lines and min(boxes[at, 1] for at in row) - bottom > usual:
            yield Block("paragraph", "\n".join(lines), page=page)
            lines = []
        lines.append(" ".join(texts[at] for at in sorted(row, key=lambda at: float(boxes[at, 0]))))
        bottom = max(boxes[at, 3] for at in row)
    yield Block("paragraph", "\n".join(lines), page=page)
