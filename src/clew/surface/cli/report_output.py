"""Output of `add` and `plan` for people: what was passed over, what a dry run found, and the question before a drop."""

import sys
from collections.abc import Sequence

from clew.core.report import PassedOver, Plan, count_passed_over
from clew.core.suggest import format_count
from clew.surface.cli.progress import format_duration
from clew.surface.cli.render import print_json, print_line, print_pairs

MAX_LISTED = 20  # documents that are named before they are dropped
_SHOWN_NAMES = 3  # of the documents that would be dropped


def print_passed_over(entries: Sequence[PassedOver], *, verbose: bool) -> None:
    """Prints on stderr how many files were passed over for each reason; with `verbose` each of them."""
    if not entries:
        return
    counts = ", ".join(f"{count:,} {reason}" for reason, count in count_passed_over(entries).items())
    print_line((f"passed over: {counts}", ""), ("" if verbose else " (--verbose lists them)", "dim"), err=True)
    for entry in entries if verbose else ():
        files = f" ({format_count(entry.files, 'file')})" if entry.source.endswith("/") else ""
        print_line(("  ", ""), (entry.source, "bold"), (f": {entry.reason}{files}", ""), err=True)


def confirm_drop(held_back: Sequence[str]) -> bool:
    """Asks on a terminal whether the documents are to be dropped; False where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    import typer

    names = ", ".join(held_back[:_SHOWN_NAMES]) + (", …" if len(held_back) > _SHOWN_NAMES else "")
    return typer.confirm(
        f"Drop {format_count(len(held_back), 'document')} whose files are gone ({names})?", default=False, err=True
    )


def confirm_named_drop(names: Sequence[str]) -> None:
    """Shows on a terminal the documents that names stand for, and asks; aborts if they are to stay."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    import typer

    _list_names(names, err=True)
    typer.confirm(f"Drop {format_count(len(names), 'document')}?", default=False, abort=True, err=True)


def print_drop(names: Sequence[str], *, as_json: bool) -> None:
    """Prints the documents that would be dropped."""
    if as_json:
        print_json({"documents": names})
        return
    print_line((f"would drop {format_count(len(names), 'document')}", ""))
    _list_names(names, err=False)


def _list_names(names: Sequence[str], *, err: bool) -> None:
    for name in names[:MAX_LISTED]:
        print_line(("  ", ""), (name, "bold"), err=err)
    if len(names) > MAX_LISTED:
        print_line((f"  and {len(names) - MAX_LISTED:,} more", "dim"), err=err)


def print_plan(plan: Plan, *, verbose: bool) -> None:
    """Prints what `add` would do on stdout, and what fails or is passed over on stderr."""
    pairs = {
        "new documents": len(plan.added),
        "changed documents": len(plan.changed),
        "unchanged documents": plan.unchanged,
        "failing sources": len(plan.failed),
        "dropped documents": f"{len(plan.dropped)}, of which {len(plan.held_back)} only with --yes"
        if plan.held_back
        else len(plan.dropped),
        "chunks": plan.chunks,
        "chunks to embed": plan.embedded,
        "chunks reused": plan.reused,
        "tokens to embed": plan.embedded_tokens,
        "model calls": plan.calls,
        "model input tokens": plan.input_tokens,
        "model output tokens": plan.output_tokens,
        "cost": plan.cost,
        "time": "unknown: the embedder is a service" if plan.seconds is None else _describe_time(plan),
    }
    print_pairs(pairs)
    for failure in plan.failed:
        print_line(("fails: ", "red"), (failure.source, "bold"), (f": {failure.reason}", ""), err=True)
    print_passed_over(plan.passed_over, verbose=verbose)


def _describe_time(plan: Plan) -> str:
    models = ", and the language model's time" if plan.calls else ""
    return f"about {format_duration(plan.seconds or 0.0)} on this machine{models}"
