"""The history of the benchmarks: what got worse by more than its noise, and the table in the docs."""

from pathlib import Path

from benchmarks import Measurement
from benchmarks.history import BEGIN, END, Run, append_run, find_worse, make_run, read_history, write_table


def make_history(*values: float, name: str = "add / floor", goal: str = "≤ 2", machine: str = "m") -> list[Run]:
    return [Run(f"2026-01-{day:02}", machine, {name: value}, {name: goal}) for day, value in enumerate(values, 1)]


def test_a_run_is_kept_as_it_was(tmp_path: Path) -> None:
    run = make_run([Measurement("add / floor", 1.23456, "≤ 2"), Measurement("recall", 0.99)])
    file = tmp_path / "history.jsonl"
    assert read_history(file) == []
    append_run(run, file)
    append_run(run, file)
    assert read_history(file) == [run, run]
    assert run.ratios == {"add / floor": 1.2346, "recall": 0.99}


def test_only_what_is_worse_by_more_than_its_noise_is_named() -> None:
    history = make_history(1.0, 1.1, 0.9, 1.0, 1.2)
    assert find_worse(make_history(1.25)[0], history) == []
    assert find_worse(make_history(0.1)[0], history) == []
    assert find_worse(make_history(1.5)[0], history) == ["worse: add / floor: 1.500, before 1.000 ± 0.300"]
    assert find_worse(make_history(1.5, machine="another")[0], history) == []
    assert find_worse(make_history(1.05)[0], make_history(1.0)) == []
    assert find_worse(make_history(1.15)[0], make_history(1.0)) != []


def test_a_lower_recall_is_worse_and_a_higher_one_is_not() -> None:
    history = make_history(0.98, 0.98, goal="≥ 0.95")
    assert find_worse(make_history(0.5, goal="≥ 0.95")[0], history)
    assert find_worse(make_history(1.0, goal="≥ 0.95")[0], history) == []


def test_the_table_is_written_between_its_markers(tmp_path: Path) -> None:
    page, run = tmp_path / "page.md", make_history(1.5)[0]
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    write_table(run, page)
    write_table(run, page)
    assert page.read_text(encoding="utf-8") == (
        f"before\n{BEGIN}\n2026-01-01, m:\n\n| what | ratio | goal |\n|---|---|---|\n"
        f"| add / floor | 1.5 | ≤ 2 |\n{END}\nafter\n"
    )
    page.write_text("no markers", encoding="utf-8")
    write_table(run, page)
    assert page.read_text(encoding="utf-8") == "no markers"
