"""Notebooks and LaTeX: cells and sections, code and formulas, and sources made to be slow."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew import Engine
from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read import read_file
from clew.index.read.text.tex import read_tex

TEX = r"""
\documentclass{article} % a class
\title{On the \emph{Rotation} of Keys}
\author{Ana M\"uller \and Ben Okafor}
\date{March 5, 2025}
\begin{document}
\begin{abstract}
We rotate keys\footnote{Every \textbf{90} days.} as in~\cite{vault2020}.
\end{abstract}
% \section{Old}
\section{Introduction}\label{sec:intro}
The vault --- see \href{https://x.example}{the page} --- costs 5\% of $x^2$, ``big'' as a caf\'e.

\begin{itemize}
  \item First \texttt{item\_one}
  \begin{enumerate}
    \item Inner
  \end{enumerate}
\end{itemize}
\subsection*{Details}
\begin{equation}
E = mc^2
\end{equation}
\begin{tabular}{l|r}
\hline Item & Cost \\ \hline
Safe \& key & 10 \\
\end{tabular}
\begin{lstlisting}[language=Python]
x = 1  % 2
\section{no}
\end{lstlisting}
\end{document}
"""


def read(folder: Path, name: str, text: str) -> Document:
    file = folder / name
    file.write_text(text)
    return read_file(file, uri=name)


def list_headings(document: Document) -> list[tuple[str, ...]]:
    return [tuple(document.heading_path(place)) for place, each in enumerate(document.sections) if each.label]


def test_a_tex_file_has_its_sections_formulas_tables_and_code(tmp_path: Path) -> None:
    document = read(tmp_path, "keys.tex", TEX)
    title = "On the Rotation of Keys"
    assert (document.title, document.meta["date"], document.meta["author"]) == (
        *(title, "2025-03-05", "Ana Müller, Ben Okafor"),
    )
    assert list_headings(document) == [
        *((title,), (title, "Abstract"), (title, "Introduction"), (title, "Introduction", "Details"))
    ]
    for part in (
        "We rotate keys (Every 90 days.) as in [vault2020].",
        "The vault — see the page — costs 5% of $x^2$, “big” as a café.",
        "- First item_one\n  1. Inner",
        "$$E = mc^2$$",
        "| Item | Cost |\n| - | - |\n| Safe & key | 10 |",
        "```\nx = 1  % 2\n\\section{no}\n```",
    ):
        assert part in document.text
    assert "Old" not in document.text


@pytest.mark.parametrize(
    "text",
    ["\\section{" * 3000, "\\footnote{" * 3000, "\\item[x]\n\n" + "b\n\n" * 3000, "$" * 9001, "{" * 9000, "\\'" * 3000],
)
def test_a_broken_tex_file_ends(tmp_path: Path, text: str) -> None:
    assert "kept" in read(tmp_path, "a.tex", f"kept\n\n{text}").text


def make_notebook(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4})


def test_a_notebook_has_its_cells_in_order(tmp_path: Path) -> None:
    figure = {"data": {"text/plain": ["<Figure size 1>"], "image/png": "AAAA"}}
    document = read(
        tmp_path,
        "winch.ipynb",
        make_notebook(
            {"cell_type": "markdown", "source": ["# Winches\n", "\n", "Load of the rope."]},
            {"cell_type": "markdown", "source": "```text\nnot closed"},
            {
                "cell_type": "code",
                "source": "# no heading\nload(3)",
                "outputs": [{"text": ["3 \x1b[31mtonnes\x1b[0m\n"]}, figure, {"text": "x" * 5000}],
            },
            {"cell_type": "markdown", "source": "## Errors"},
            {"cell_type": "code", "source": "1/0", "outputs": [{"ename": "ZeroDivisionError", "evalue": "by zero"}]},
        ),
    )
    assert document.title == "Winches"
    assert list_headings(document) == [("Winches",), ("Winches", "Errors")]
    assert "```text\nnot closed\n```\n\n```python\n# no heading\nload(3)\n```\n\n```output\n3 tonnes\n" in document.text
    assert "ZeroDivisionError: by zero" in document.text
    assert "Figure" not in document.text
    assert len(document.text) < 1500
    assert document.meta["cells"] == 5


def test_what_is_no_notebook_is_refused(tmp_path: Path) -> None:
    for text, reason in (("{", "not valid JSON"), ("[1]", "no list of cells"), ('{"cells": []}', "cells are empty")):
        with pytest.raises(SourceError, match=reason):
            read(tmp_path, "a.ipynb", text)
    old = {"worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Old"}]}]}
    assert read(tmp_path, "a.ipynb", json.dumps(old)).text == "## Old\n"


def test_labels_of_tex_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.tex").write_text(
        "\\section{Keys}\\label{sec:a}\nThe sum $a \\label{eq:b}$ is \\label{eq:c} small.\n"
        "\\begin{align} a &= b \\label{eq:d} \\\\ c &= d \\end{align}\n\\[ e \\label{eq:f} \\]\n"
    )
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(tmp_path)
        text = engine.read(next(iter(engine.list())).id).text
    assert "label" not in text
    assert "eq:" not in text
    assert "c &= d" in text


def test_the_arguments_of_a_command_that_is_not_known_are_kept_apart() -> None:
    source = (
        "\\moduleauthor{Joe Gregorio}{joe@example.org}\n\n\\begin{classdesc}{Http}{\\optional{cache=None}}\nOpens it.\n"
        "\\end{classdesc}\n\n\\textbf{{W}inch}es of {B}ib{T}{E}X.\n"
    )
    assert read_tex(source, uri="a.tex", name="a.tex").text == (
        "Joe Gregorio joe@example.org\n\nHttp cache=None\nOpens it.\n\nWinches of BibTEX."
    )
