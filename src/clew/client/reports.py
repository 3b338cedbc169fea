"""The reports of several jobs as one."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from clew.client.records import ReportReply
from clew.client.uploads import FoundFiles
from clew.core.report import PassedOver, count_passed_over

_LISTS = ("added", "changed", "failed", "noted", "incomplete", "held_back", "passed_over")
_COUNTS = ("skipped", "chunks", "embedded", "reused", "seconds", "dropped", "cost")


def merge_reports(reports: Sequence[Mapping[str, Any]], found: FoundFiles) -> ReportReply:
    """What several jobs did, and what the client itself did not upload."""
    merged: dict[str, Any] = {name: [item for each in reports for item in each[name]] for name in _LISTS}
    merged["failed"] += found.failed
    merged["passed_over"] += found.passed_over
    merged |= {name: sum(each[name] for each in reports) for name in _COUNTS}
    merged["stopped"] = "; ".join(each["stopped"] for each in reports if each["stopped"])
    counts = [each["passed_over_counts"] for each in reports]
    counts.append(count_passed_over(PassedOver(**each) for each in found.passed_over))
    reasons = {reason for each in counts for reason in each}
    merged["passed_over_counts"] = {reason: sum(each.get(reason, 0) for each in counts) for reason in sorted(reasons)}
    return cast(ReportReply, merged)
