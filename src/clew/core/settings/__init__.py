"""The settings: one frozen tree of dataclasses with a default for everything, validated when constructed.

It is passed to `Engine.open(settings=…)`, and any call accepts its own. The surface reads files and the environment.
"""

from dataclasses import dataclass, field, fields
from typing import cast

from clew.core.errors import SettingsError
from clew.core.settings.answer import AgentConfig, AnswerConfig
from clew.core.settings.context import RENDERERS, ContextConfig, FormatterConfig, MergerConfig, SessionConfig
from clew.core.settings.ingestion import IngestionConfig, ThreadConfig
from clew.core.settings.messages import FlowConfig, ScoringConfig
from clew.core.settings.models import EmbedderConfig, LLMConfig, RerankerConfig
from clew.core.settings.search import ConversationConfig, HistoryConfig, QueryTransformerConfig, SearchConfig
from clew.core.settings.server import ServerConfig
from clew.core.settings.store import JobConfig, StoreConfig

__all__ = [
    "DEFAULTS",
    "RENDERERS",
    "AgentConfig",
    "AnswerConfig",
    "ContextConfig",
    "ConversationConfig",
    "EmbedderConfig",
    "FlowConfig",
    "FormatterConfig",
    "HistoryConfig",
    "IngestionConfig",
    "JobConfig",
    "LLMConfig",
    "MergerConfig",
    "QueryTransformerConfig",
    "RerankerConfig",
    "ScoringConfig",
    "SearchConfig",
    "ServerConfig",
    "SessionConfig",
    "Settings",
    "StoreConfig",
    "ThreadConfig",
]


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, one field per table of clew.toml."""

    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    reranker: RerankerConfig = field(default_factory=RerankerConfig)
    llm: LLMConfig = field(default_factory=LLMConfig)
    ingestion: IngestionConfig = field(default_factory=IngestionConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    query_transformer: QueryTransformerConfig = field(default_factory=QueryTransformerConfig)
    history: HistoryConfig = field(default_factory=HistoryConfig)
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
    jobs: JobConfig = field(default_factory=JobConfig)
    server: ServerConfig = field(default_factory=ServerConfig)

    def __post_init__(self) -> None:
        for table in fields(self):
            value, kind = getattr(self, table.name), cast("type", table.default_factory)
            if not isinstance(value, kind):
                raise SettingsError(f"{table.name} has the type {type(value).__name__}; give a clew.{kind.__name__}(…)")


DEFAULTS = Settings()
