"""A model in a program that forks, and one that is interrupted while its server hangs."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from clew.drivers.llm.model import ModelLLM
from tests.loopback import LoopbackHandler, LoopbackServer, make_completion, serving

pytest.importorskip("pydantic_ai")


class Server(LoopbackServer):
    """Sends its replies, then hangs."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.replies: list[str] = []
        self.requests = 0


class Handler(LoopbackHandler):
    server: Server

    def answer(self) -> None:
        self.read_json()
        with self.server.lock:
            self.server.requests += 1
            text = self.server.replies.pop(0) if self.server.replies else None
        if text is None:
            self.server.closing.wait(60)
        else:
            self.reply_json(make_completion(text))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server()) as server:
        yield server


PROGRAM = """
import os, sys
from clew.drivers.llm.model import ModelLLM
llm = ModelLLM("m", url=sys.argv[1])
print(llm.complete("parent"), flush=True)
if hasattr(os, "fork"):
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        print(*llm.complete_many(["child", "child"]), flush=True)
        sys.exit()
try:
    llm.complete_many([str(n) for n in range(50)], max_concurrent=3)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
def test_a_program_that_forks_and_is_interrupted(server: Server) -> None:
    forks = 2 if hasattr(os, "fork") else 0
    server.replies = ["one", *["two"] * forks]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, f"{server.url}/v1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        for _ in range(6000):
            if server.requests == forks + 4:
                break
            time.sleep(0.01)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=30)  # a request would hang for 60
    assert (out, err) == ("one\n" + "two two\n" * (forks // 2) + "interrupted\n", "")
    assert program.returncode == 0
    assert server.requests == forks + 4


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a thread cannot be sent a signal on Windows")
def test_after_an_interrupt_nothing_is_tried_again(server: Server) -> None:
    llm = ModelLLM("m", url=f"{server.url}/v1")
    main = threading.get_ident()

    def interrupt() -> None:
        while server.requests < 2:
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        llm.complete_many(list("abcdef"), max_concurrent=2)
    helper.join()
    for thread in threading.enumerate():
        if thread.name.startswith("clew-worker-"):
            thread.join(20)  # their requests are cancelled, or this would take 60 s
            assert not thread.is_alive()
    assert server.requests == 2
