"""OCR of images by rapidocr: the recognised lines in reading order.

The package includes its models, so nothing is downloaded. It is an extra because it depends on OpenCV.
"""

import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.errors import DriverMissing, NothingRecognised, SourceError
from clew.core.types import Document
from clew.index.read.blocks import ParsedSource, SourceBlock, build_document, make_title_from_file_name
from clew.index.read.guard import wrap_library_errors
from clew.index.read.process.limits import check_page_count, start_pages

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp")
OCR_MISSING = "is a picture; reading its text needs rapidocr: pip install 'clew[ocr]'"
MAX_PIXELS = 60_000_000
SEEN_PIXELS = 2_900_000  # to which a picture is reduced: a page at 170 dpi; memory grows with the pixels
MAX_RATIO = 3  # of the sides: the recogniser enlarges a picture until its shorter side has 736 pixels
MIN_LINE_SCORE = 0.5  # score below which a line is dropped
ORIENTATION_SAMPLE = 5  # lines whose orientation is checked
_ocr_lock = Lock()

Pixels = NDArray[np.uint8]


def is_ocr_installed() -> bool:
    """Return whether OCR is installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("rapidocr", "cv2"))


def read_image(data: bytes, *, uri: str, name: str) -> Document:
    """Return the Document of the text in an image."""
    if not is_ocr_installed():
        raise SourceError(uri, OCR_MISSING)
    with wrap_library_errors(uri, format_name="picture"):
        frames = _decode_frames(data)
        if not frames:
            raise SourceError(uri, "is not a readable picture: it is broken, or too large")
    check_page_count(len(frames), uri=uri)
    blocks: list[SourceBlock] = []
    for page, frame in enumerate(frames, 1):
        start_pages()
        blocks += recognise_text(frame, uri=uri, page=page)
    if not blocks:
        raise NothingRecognised(uri, "is a picture in which no text was recognised")
    meta = {"pages": len(frames), "extraction": "ocr"}
    return build_document(
        ParsedSource(blocks, make_title_from_file_name(name), meta),
        uri=uri,
        name=name,
        source_format=PurePath(name).suffix[1:].lower(),
    )


def recognise_text(pixels: Pixels, *, uri: str, page: int) -> Iterator[SourceBlock]:
    """Yield the lines of an image as paragraphs, for any rotation of the page."""
    with wrap_library_errors(uri, format_name="picture"), _ocr_lock:
        pixels = _fit_picture(pixels)
        found = _load_ocr_engine()(
            pixels, use_det=True, use_cls=True, use_rec=True
        )  # state all options: the engine remembers the last ones
        if found.boxes is None or not found.txts:
            return
        keep = [at for at, score in enumerate(found.scores) if score >= MIN_LINE_SCORE and found.txts[at].strip()]
        boxes = np.asarray([found.boxes[at] for at in keep], dtype=np.float64).reshape(-1, 4, 2)
        texts = [found.txts[at] for at in keep]
        upright = _rotate_boxes(pixels, boxes)
    yield from _group_boxes_into_lines(upright, texts, page)


def _decode_frames(data: bytes) -> list[Pixels]:
    """Decode the images of a file; a TIFF can hold several."""
    import cv2

    raw = np.frombuffer(data, dtype=np.uint8)
    is_read, frames = cv2.imdecodemulti(raw, cv2.IMREAD_COLOR)
    found: list[Any] = list(frames) if is_read else [cv2.imdecode(raw, cv2.IMREAD_COLOR)]
    return [frame for frame in found if frame is not None and 0 < frame.shape[0] * frame.shape[1] <= MAX_PIXELS]


def _fit_picture(pixels: Pixels) -> Pixels:
    """Reduce a picture to SEEN_PIXELS, after adding a margin to a long strip."""
    import cv2

    high, wide = pixels.shape[:2]
    lower, right = max(0, wide // MAX_RATIO - high), max(0, high // MAX_RATIO - wide)
    if lower or right:
        edge = [int(value) for value in pixels[-1, -1]]
        pixels = np.asarray(cv2.copyMakeBorder(pixels, 0, lower, 0, right, cv2.BORDER_CONSTANT, value=edge), np.uint8)
    scale = (SEEN_PIXELS / (pixels.shape[0] * pixels.shape[1])) ** 0.5
    if scale >= 1:
        return pixels
    return np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8)


@cache
def _load_ocr_engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ImportError as error:
        raise DriverMissing("reading pictures needs rapidocr: pip install 'clew[ocr]'") from error
    return RapidOCR(params={"Global.log_level": "error"})


def _rotate_boxes(pixels: Pixels, boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the boxes (left, top, right, bottom) as on the page rotated upright."""
    high, wide = pixels.shape[:2]
    low, top = boxes.min(axis=1), boxes.max(axis=1)
    sides = top - low
    is_sideways = bool(np.median(sides[:, 1] / np.maximum(sides[:, 0], 1)) > 1.5) if len(boxes) else False
    longest = np.argsort(-sides.max(axis=1))[:ORIENTATION_SAMPLE]
    upside_down = [_is_upside_down(pixels, low[at], top[at], is_sideways) for at in longest]
    is_flipped = sum(upside_down) * 2 > len(upside_down)
    xs, ys = boxes[..., 0], boxes[..., 1]
    if is_sideways:
        xs, ys = (high - ys, xs) if is_flipped else (ys, wide - xs)
    elif is_flipped:
        xs, ys = wide - xs, high - ys
    return np.stack([xs.min(axis=1), ys.min(axis=1), xs.max(axis=1), ys.max(axis=1)], axis=1)


def _is_upside_down(pixels: Pixels, low: NDArray[np.float64], top: NDArray[np.float64], is_sideways: bool) -> bool:
    (left, upper), (right, lower) = (np.maximum(corner, 0).astype(int) for corner in (low, top))
    cut = np.ascontiguousarray(
        np.rot90(pixels[upper:lower, left:right]) if is_sideways else pixels[upper:lower, left:right]
    )
    if not cut.size:
        return False
    result = _load_ocr_engine()(cut, use_det=False, use_cls=True, use_rec=False)
    results: Any = getattr(result, "cls_res", None)
    return bool(results) and str(results[0][0]) == "180"


def _group_boxes_into_lines(boxes: NDArray[np.float64], texts: list[str], page: int) -> Iterator[SourceBlock]:
    """Yield paragraphs of lines from top to bottom, boxes side by side joined; a wide gap begins a paragraph."""
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
            yield SourceBlock("paragraph", "\n".join(lines), page=page)
            lines = []
        lines.append(" ".join(texts[at] for at in sorted(row, key=lambda at: float(boxes[at, 0]))))
        bottom = max(boxes[at, 3] for at in row)
    yield SourceBlock("paragraph", "\n".join(lines), page=page)
