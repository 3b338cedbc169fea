"""A backend that lies is named by the contract suite, and by doctor where it can be seen."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clew import BaseBackend, Document, Engine
from tests import lying_backends as lying

LIES = {
    "wrong_counts": "whole_for_every_opener",
    "lost_chunks": "whole_for_every_opener",
    "lost_pieces": "whole_for_every_opener",
    "halfway": "fails_halfway",
    "lost_updates": "over_another_state",
    "moving_state": "stays_as_it_is",
    "lost_texts": "named_texts",
}


@pytest.mark.parametrize("name", LIES)
def test_the_contract_suite_names_a_backend_that_lies(name: str) -> None:
    suite = Path(__file__).with_name("test_backend.py")
    command = [sys.executable, "-m", "pytest", str(suite), "-q", "-n", "0", "--tb=no", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--backend", f"tests.lying_backends:{name}"], capture_output=True, text=True, cwd=suite.parents[2]
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(LIES[name] in line for line in done.stdout.splitlines() if line.startswith("FAILED")), done.stdout


@pytest.mark.parametrize(
    ("opener", "told"),
    [
        (lying.wrong_counts, "documents where there are 1"),
        (lying.lost_chunks, "chunk"),
        (lying.lost_pieces, "text"),
    ],
)
def test_doctor_names_what_a_lie_left(tmp_path: Path, opener: Callable[[Path, str], BaseBackend], told: str) -> None:
    with Engine.open(opener(tmp_path, "one"), embedder="hashed") as engine:
        engine.add_documents([Document("a", "# One\n\nThe anchor.\n\n# Two\n\nThe buoy.")])
        problems = [each.problem for each in engine.doctor().defects if each.severity == "damage"]
        assert any(told in each for each in problems), problems


@pytest.mark.timeout(60)
def test_doctor_ends_over_a_backend_that_gives_the_same_rows_again_and_again(tmp_path: Path) -> None:
    with Engine.open(lying.all_rows(tmp_path, "one"), embedder="hashed") as engine:
        engine.add_documents([Document(name, f"The anchor of {name}.") for name in "abc"])
        assert any(each.severity == "damage" for each in engine.doctor(full=True).defects)
