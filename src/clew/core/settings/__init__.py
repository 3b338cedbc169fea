"""The settings: one frozen tree with a default for everything, checked when it is made.

It is given to `Engine.open(settings=…)`, and any call may be given its own. Reading files and the environment is the
surface's work.
"""

from dataclasses import dataclass, field

from clew.core.settings.answer import AgentConfig, AnswerConfig
from clew.core.settings.context import RENDERED, ContextConfig, FormatterConfig, MergerConfig, SessionConfig
from clew.core.settings.ingestion import IngestionConfig, ThreadConfig
from clew.core.settings.models import EmbedderConfig, LLMConfig, RerankerConfig
from clew.core.settings.search import ConversationConfig, SearchConfig
from clew.core.settings.store import StoreConfig
from clew.core.settings.talk import FlowConfig, ScoringConfig

__all__ = [
    "DEFAULTS",
    "RENDERED",
    "AgentConfig",
    "AnswerConfig",
    "ContextConfig",
    "ConversationConfig",
    "EmbedderConfig",
    "FlowConfig",
    "FormatterConfig",
    "IngestionConfig",
    "LLMConfig",
    "MergerConfig",
    "RerankerConfig",
    "ScoringConfig",
    "SearchConfig",
    "SessionConfig",
    "Settings",
    "StoreConfig",
    "ThreadConfig",
]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set."""

    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    reranker: RerankerConfig = field(default_factory=RerankerConfig)
    llm: LLMConfig = field(default_factory=LLMConfig)
    ingestion: IngestionConfig = field(default_factory=IngestionConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    conversation: ConversationConfig = field(default_factory=ConversationConfig)
    merger: MergerConfig = field(default_factory=MergerConfig)
    formatter: FormatterConfig = field(default_factory=FormatterConfig)
    context: ContextConfig = field(default_factory=ContextConfig)
    answer: AnswerConfig = field(default_factory=AnswerConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    session: SessionConfig = field(default_factory=SessionConfig)
    threads: ThreadConfig = field(default_factory=ThreadConfig)
    flow: FlowConfig = field(default_factory=FlowConfig)
    scoring: ScoringConfig = field(default_factory=ScoringConfig)
    store: StoreConfig = field(default_factory=StoreConfig)


DEFAULTS = Settings()
