"""The web page in Chromium over 10,000 chunks: when its results are there, and the longest task while one types."""

import json
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks import Measurement, Setup, Skipped, p50
from clew import Document, Engine
from tests.surface.server.conftest import serving

DOCUMENTS, PARTS = 1000, 10
ROUNDS = 3
WORDS = """boat dawn key rotation station storm anchor log ledger tide signal lantern rope winch crane cargo deck
crew watch mast sail engine fuel ration medic radio chart beacon buoy mooring berth"""
TYPED = "who keeps the lantern at the mooring when a storm comes in from the sea and the crew is away"
OBSERVE = """window.tasks = []; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.tasks.push([entry.startTime, entry.duration]);
}).observe({ type: "longtask", buffered: true });"""
FOUND = (
    """() => performance.getEntriesByType("resource").find((each) => each.name.includes("/v1/search")).responseEnd"""
)


def measure_page(setup: Setup) -> Sequence[Measurement]:
    """The first page is not counted: it starts the browser and opens the collection."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Skipped("playwright is not installed") from None
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise Skipped("Chromium is not installed")
    found: list[float] = []
    longest: list[float] = []
    busiest: list[float] = []
    with serving(fill_collection(setup.work / "page.clew")) as running, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(ROUNDS + 1):
            with browser.new_context(base_url=running.address) as context:
                context.add_init_script(OBSERVE)
                page = context.new_page()
                page.goto("/#/search?q=storm+signal+at+the+berth")
                page.locator("[data-hit]").first.wait_for()
                found.append(page.evaluate(FOUND))
                page.get_by_role("searchbox").fill("")
                page.wait_for_timeout(500)
                browser.start_tracing(page=page, categories=["toplevel"])
                began = page.evaluate("performance.now()")
                page.get_by_role("searchbox").press_sequentially(TYPED, delay=90)
                page.wait_for_timeout(1000)
                longest.append(max((long for at, long in page.evaluate("tasks") if at >= began), default=0.0))
                busiest.append(find_busiest_task(browser.stop_tracing()))
        browser.close()
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return [
        Measurement("seconds until the results of a link are there, 10,000 chunks", p50(found[1:]) / 1000, "≤ 1", load),
        Measurement("milliseconds of the longest task while one types", max(longest[1:]), "≤ 100", load),
        Measurement(
            "milliseconds of processor time of the busiest task then", max(busiest[1:]), "≤ 100", "whatever the load"
        ),
    ]


def find_busiest_task(trace: bytes) -> float:
    """The milliseconds of processor time of the page's task that took most; other programs do not lengthen it."""
    events = json.loads(trace)["traceEvents"]
    threads = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks = (each for each in events if (each["pid"], each["tid"]) in threads and each["name"].endswith("RunTask"))
    return max((each.get("tdur", 0) / 1000 for each in tasks), default=0.0)


def fill_collection(path: Path) -> Path:
    """A collection of 10,000 chunks of random words."""
    choose = random.Random(1)
    words = WORDS.split()

    def write() -> str:
        return " ".join(f"{' '.join(choose.choices(words, k=14)).capitalize()}." for _ in range(14))

    with Engine.open(path, embedder="hashed") as engine:
        engine.add_documents(
            Document(f"log-{number}", "\n\n".join(f"## Part {part}\n\n{write()}" for part in range(PARTS)))
            for number in range(DOCUMENTS)
        )
    return path
