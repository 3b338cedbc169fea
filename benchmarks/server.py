"""The server under load: many searches at once over loopback, against the same searches called in process.

The client is on the same cores as the server. The queries are all different, and no result is cached.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter

import httpx2
import numpy as np

from benchmarks import Measurement, Setup
from benchmarks.corpus import load_texts
from clew import Document, Engine, SearchConfig, Settings

CLIENTS = 200
SECONDS, LONG_SECONDS = 10.0, 60.0
CHUNKS = 2000
THREADS = 8
MODEL = "bge-small"


def measure_server(setup: Setup) -> Sequence[Measurement]:
    """200 clients that search without a pause; 60 seconds with `--long`, else 10."""
    seconds = LONG_SECONDS if setup.include_slow else SECONDS
    texts = load_texts(setup, CHUNKS)
    folder = setup.work / "served.clew"
    settings = Settings(search=SearchConfig(cache=0))
    with Engine.open(folder, embedder=MODEL, settings=settings) as engine:
        engine.add_documents(Document(each.id, each.text) for each in texts)
        queries = [f"{' '.join(each.text.split()[:12])} {number}" for number in range(60) for each in texts]
        inside = _count_in_process(engine, queries, seconds / 2)
    served, errors, times, memory = asyncio.run(_load(folder, queries, seconds))
    label = f"{CLIENTS} clients, {seconds:g} s, {MODEL}"
    p50, p99 = float(np.percentile(times, 50)), float(np.percentile(times, 99))
    return [
        Measurement(f"requests a second over the same searches in process, {label}", served / inside, "≥ 0.5"),
        Measurement(f"p99 / p50, {label} (p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms)", p99 / p50, "≤ 5"),
        Measurement(f"errors of {len(times)} requests, {label}", errors, "0"),
        Measurement("memory at the end over that at a third of the time", memory, "≤ 1.1"),
    ]


def _count_in_process(engine: Engine, queries: Sequence[str], seconds: float) -> float:
    """Searches a second by as many threads as the server has."""
    waiting: SimpleQueue[str] = SimpleQueue()
    for query in queries:
        waiting.put(query)
    done: list[int] = []
    end = monotonic() + seconds

    def work() -> None:
        count = 0
        while monotonic() < end:
            try:
                engine.search(waiting.get_nowait())
            except Empty:
                break
            count += 1
        done.append(count)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    started = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (perf_counter() - started)


async def _load(folder: Path, queries: Sequence[str], seconds: float) -> tuple[float, int, list[float], float]:
    """Requests a second, errors, the time of each request, and how the memory grew."""
    command = [sys.executable, "-m", "clew", "serve", "--path", str(folder), "--port", "0", "--json"]
    own = {"CLEW_SERVER__RATE": "0", "CLEW_SEARCH__CACHE": "0", "CLEW_SERVER__MAX_CONCURRENT": str(THREADS)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **own}
    ) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        times: list[float] = []
        errors = 0
        remaining = iter(queries)
        memory: list[int] = []

        async def ask(client: httpx2.AsyncClient, end: float) -> None:
            nonlocal errors
            while monotonic() < end:
                started = perf_counter()
                reply = await client.post("/v1/search", json={"query": next(remaining)})
                times.append(perf_counter() - started)
                errors += reply.status_code != 200

        async def watch(end: float) -> None:
            while monotonic() < end:
                memory.append(_read_memory(process.pid))
                await asyncio.sleep(0.5)

        limits = httpx2.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
        async with httpx2.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
            await client.post("/v1/search", json={"query": "warm up"})
            started = monotonic()
            end = started + seconds
            await asyncio.gather(watch(end), *(ask(client, end) for _ in range(CLIENTS)))
            took = monotonic() - started
        process.terminate()
    return len(times) / took, errors, times, memory[-1] / memory[len(memory) // 3]


def _read_memory(pid: int) -> int:
    """The resident memory of a process, in pages."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
