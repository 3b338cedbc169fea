"""The types of the fields of requests: bounded, and described for who reads the schema."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Strict

from clew.query.context.format.renderers import RENDERERS
from clew.query.search.strategies import STRATEGIES


def _is_whole(given: object) -> bool:
    return isinstance(given, float) and given.is_integer()


Text = Annotated[str, Field(min_length=1, max_length=20_000, pattern=r"[^\s\x00-\x1f\x7f-\xa0]")]  # not blank
LongText = Annotated[str, Field(max_length=4_000_000)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Label = Annotated[str, Field(max_length=500)]
Names = Annotated[list[Label], Field(max_length=1000)]
Time = Annotated[str, Field(max_length=40, json_schema_extra={"anyOf": [{"format": "date-time"}, {"format": "date"}]})]
WHOLE = BeforeValidator(lambda given: int(given) if _is_whole(given) else given)  # in JSON 5.0 is a whole number too
Count = Annotated[int, Field(ge=1, le=1000), WHOLE]
Tokens = Annotated[int, Field(ge=1, le=1_000_000), WHOLE]
Depth = Annotated[int, Field(ge=1, le=10_000), WHOLE]
Position = Annotated[int, Field(ge=0, le=2**53), WHOLE]
Share = Annotated[float, Field(ge=-1, le=1)]
Scalar = str | Annotated[int, Strict(), Field(ge=-(2**53), le=2**53)] | Annotated[float, Strict()] | bool
Meta = Annotated[dict[Label, Scalar | Annotated[list[Scalar], Field(max_length=100)]], Field(max_length=100)]
Choice = Annotated[
    Name,
    Field(
        description=f"How is searched: {', '.join(STRATEGIES)}, or one of the server's own; without it the server's."
    ),
]
Rendering = Annotated[
    Name,
    Field(description=f"How the text is written: {', '.join(RENDERERS)}, or one of the server's own."),
]
Hits = Annotated[Count, Field(description="How many hits, best first; without it the server's `search.k`.")]
Mode = Annotated[
    Literal["ann", "exact"],
    Field(description="Vector search: `ann` is approximate in large collections, `exact` compares every chunk."),
]
Candidates = Annotated[Depth, Field(description="How many candidates each ranking of a fused search considers.")]
Relevance = Annotated[
    float,
    Field(ge=0, le=1, description="Leave out hits whose chance to answer, from 0 to 1, is lower; 0 leaves out none."),
]
Similarity = Annotated[
    Share, Field(description="Leave out hits whose cosine with the query is lower; its scale is the embedder's.")
]
Grouping = Annotated[Literal["document"], Field(description="`document`: at most one hit of each document.")]
Budget = Annotated[Tokens, Field(description="How many tokens the text of the passages may have.")]
Channel = Annotated[Name, Field(description="The channel in which it is asked: what was said there counts more.")]
Now = Annotated[Time, Field(description="When it is asked; without it, now.")]
Person = Annotated[Name, Field(description="Answer as this person writes; needs a language model.")]
IsAgent = Annotated[bool, Field(description="Let an agent search by itself, in several steps; needs a language model.")]
