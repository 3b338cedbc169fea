"""The flow of a conversation: a message is also found by what was said around it.

It stands after a ranking and before the cut to `k`. What comes before a message is embedded with it; what comes after
is not known when it is written, and counts here, when something is asked: a message gains a share of the scores of
those that follow it and, a smaller one, of those before it. Only hits give and gain, so nothing is read for it. Pages
keep their scores, and the messages together keep the range of theirs.
"""

from collections.abc import Iterator, Sequence

from clew.core.protocols import Step
from clew.core.settings import FlowConfig
from clew.core.trace import trace_step
from clew.core.types import Chunk, Hit, Query
from clew.query.rank.fuse import minmax

FLOW = "flow"  # the name of the score


def is_message(chunk: Chunk) -> bool:
    """Whether a chunk is a message, or a part of one."""
    return "message" in chunk.meta


def smooth_threads(config: FlowConfig) -> Step:
    """A step that shares the scores of messages along their threads."""

    @trace_step(FLOW)
    def share(_: Query, hits: list[Hit]) -> list[Hit]:
        said = [hit for hit in hits if is_message(hit.chunk)]
        if len(said) < 2 or not config.reach or not (config.after or config.before):
            return hits
        low, high = min(hit.score for hit in said), max(hit.score for hit in said)
        threads: dict[str, list[tuple[Hit, float]]] = {}
        for hit, score in zip(said, minmax([hit.score for hit in said]), strict=True):
            threads.setdefault(hit.chunk.doc_id, []).append((hit, score))
        gained = [pair for thread in threads.values() for pair in shared(thread, config)]
        most = max(score for _, score in gained)
        flowed = [hit.with_score(low + (high - low) * score / most, FLOW) for hit, score in gained]
        pages = [hit for hit in hits if not is_message(hit.chunk)]
        return sorted([*pages, *flowed], key=lambda hit: (-hit.score, hit.chunk.id))

    return share


def shared(thread: Sequence[tuple[Hit, float]], config: FlowConfig) -> Iterator[tuple[Hit, float]]:
    """Each hit of a thread with its score and what it gains of the others.

    score(i) + Σ share · (1 - (d - 1) / reach) · score(j) over the hits at a distance d of up to `reach`, where the
    share is `after` for those that follow and `before` for those that precede. A reply is one step from what it
    answers, however far apart they stand; of several distant replies the best counts.
    """
    places = {hit.chunk.index: score for hit, score in thread}
    begins: dict[str, int] = {}  # where a message begins, by its id
    for hit, _ in thread:
        id_ = str(hit.chunk.meta["message"])
        begins[id_] = min(hit.chunk.index, begins.get(id_, hit.chunk.index))
    replies: dict[int, float] = {}  # the best distant reply, by place
    answered: dict[int, float] = {}  # the distant message that is answered, by place
    for hit, score in thread:
        at = begins.get(str(hit.chunk.meta.get("reply_to", "")))
        if at is not None and hit.chunk.index - at > config.reach:
            replies[at] = max(score, replies.get(at, 0.0))
            answered[hit.chunk.index] = places[at]
    for hit, score in thread:
        at = hit.chunk.index
        gain = config.after * replies.get(at, 0.0) + config.before * answered.get(at, 0.0)
        for distance in range(1, config.reach + 1):
            near = 1 - (distance - 1) / config.reach
            gain += config.after * near * places.get(at + distance, 0.0)
            gain += config.before * near * places.get(at - distance, 0.0)
        yield hit, score + gain
