"""Clew finds the right context for a language model in documents and conversations, and shows where it came from.

Public names: `Engine`, the types that its verbs return, the driver protocols, the settings, the errors.
`clew.evaluation` has the names for evaluation and tuning, `clew.compat` those of the design documents.
"""

from typing import TYPE_CHECKING, Any

from clew.core.lazy import import_name, list_names

if TYPE_CHECKING:
    from clew.client.client import AsyncClient as AsyncClient
    from clew.client.client import Client as Client
    from clew.client.transport import ServerError as ServerError
    from clew.core.answer import Answer as Answer
    from clew.core.answer import AnswerPart as AnswerPart
    from clew.core.answer import AnswerSentence as AnswerSentence
    from clew.core.answer import RemovedSentence as RemovedSentence
    from clew.core.answer import SupportVerdict as SupportVerdict
    from clew.core.attribution import PassageMessage as PassageMessage
    from clew.core.calibration import Calibration as Calibration
    from clew.core.cite import Citation as Citation
    from clew.core.cite import CitationCheck as CitationCheck
    from clew.core.cite import Context as Context
    from clew.core.cite import DroppedPassage as DroppedPassage
    from clew.core.cite import MergedChunk as MergedChunk
    from clew.core.doctor import Defect as Defect
    from clew.core.doctor import DoctorReport as DoctorReport
    from clew.core.errors import ClewError as ClewError
    from clew.core.errors import CollectionDamaged as CollectionDamaged
    from clew.core.errors import CollectionLost as CollectionLost
    from clew.core.errors import ConcurrentChange as ConcurrentChange
    from clew.core.errors import CostLimit as CostLimit
    from clew.core.errors import DriverFailed as DriverFailed
    from clew.core.errors import DriverMissing as DriverMissing
    from clew.core.errors import LimitReached as LimitReached
    from clew.core.errors import ModelSwitched as ModelSwitched
    from clew.core.errors import NotFound as NotFound
    from clew.core.errors import ReadOnlyStore as ReadOnlyStore
    from clew.core.errors import SettingsError as SettingsError
    from clew.core.errors import SourceError as SourceError
    from clew.core.errors import StoreMismatch as StoreMismatch
    from clew.core.errors import UnsupportedAnswer as UnsupportedAnswer
    from clew.core.events import AnswerEvent as AnswerEvent
    from clew.core.events import EventStream as EventStream
    from clew.core.events import FinalEvent as FinalEvent
    from clew.core.events import SentenceEvent as SentenceEvent
    from clew.core.events import StepEvent as StepEvent
    from clew.core.events import StepStartEvent as StepStartEvent
    from clew.core.events import TokenEvent as TokenEvent
    from clew.core.events import VerdictEvent as VerdictEvent
    from clew.core.explanation import Explanation as Explanation
    from clew.core.explanation import Fix as Fix
    from clew.core.explanation import WhyNot as WhyNot
    from clew.core.filter import EVERYTHING as EVERYTHING
    from clew.core.filter import Filter as Filter
    from clew.core.jobs import Job as Job
    from clew.core.protocols import LLM as LLM
    from clew.core.protocols import Chunker as Chunker
    from clew.core.protocols import Embedder as Embedder
    from clew.core.protocols import Enricher as Enricher
    from clew.core.protocols import Fuse as Fuse
    from clew.core.protocols import Judge as Judge
    from clew.core.protocols import LLMFailure as LLMFailure
    from clew.core.protocols import Reader as Reader
    from clew.core.protocols import Reranker as Reranker
    from clew.core.protocols import Rewrite as Rewrite
    from clew.core.protocols import SearchableStore as SearchableStore
    from clew.core.protocols import Step as Step
    from clew.core.protocols import Strategy as Strategy
    from clew.core.protocols import Verdict as Verdict
    from clew.core.protocols import Verifier as Verifier
    from clew.core.report import OnProgress as OnProgress
    from clew.core.report import PassedOver as PassedOver
    from clew.core.report import Plan as Plan
    from clew.core.report import Progress as Progress
    from clew.core.report import Receipt as Receipt
    from clew.core.report import Report as Report
    from clew.core.report import SourceFailure as SourceFailure
    from clew.core.settings import AgentConfig as AgentConfig
    from clew.core.settings import AnswerConfig as AnswerConfig
    from clew.core.settings import ContextConfig as ContextConfig
    from clew.core.settings import ConversationConfig as ConversationConfig
    from clew.core.settings import EmbedderConfig as EmbedderConfig
    from clew.core.settings import FlowConfig as FlowConfig
    from clew.core.settings import FormatterConfig as FormatterConfig
    from clew.core.settings import HistoryConfig as HistoryConfig
    from clew.core.settings import IngestionConfig as IngestionConfig
    from clew.core.settings import JobConfig as JobConfig
    from clew.core.settings import LLMConfig as LLMConfig
    from clew.core.settings import MergerConfig as MergerConfig
    from clew.core.settings import QueryTransformerConfig as QueryTransformerConfig
    from clew.core.settings import RerankerConfig as RerankerConfig
    from clew.core.settings import ScoringConfig as ScoringConfig
    from clew.core.settings import SearchConfig as SearchConfig
    from clew.core.settings import ServerConfig as ServerConfig
    from clew.core.settings import SessionConfig as SessionConfig
    from clew.core.settings import Settings as Settings
    from clew.core.settings import StoreConfig as StoreConfig
    from clew.core.settings import ThreadConfig as ThreadConfig
    from clew.core.stored import CollectionRecord as CollectionRecord
    from clew.core.stored import DroppedCollection as DroppedCollection
    from clew.core.stored import Manifest as Manifest
    from clew.core.thread import Thread as Thread
    from clew.core.trace import Trace as Trace
    from clew.core.trace import record as record
    from clew.core.types import Chunk as Chunk
    from clew.core.types import Document as Document
    from clew.core.types import DocumentRecord as DocumentRecord
    from clew.core.types import Hit as Hit
    from clew.core.types import Matrix as Matrix
    from clew.core.types import Message as Message
    from clew.core.types import Query as Query
    from clew.core.types import Section as Section
    from clew.core.types import StoreStats as StoreStats
    from clew.core.types import Vector as Vector
    from clew.core.usage import Usage as Usage
    from clew.core.usage import record_usage as record_usage
    from clew.core.window import ContextMessage as ContextMessage
    from clew.core.window import ContextWindow as ContextWindow
    from clew.core.window import DroppedMessage as DroppedMessage
    from clew.core.window import Links as Links
    from clew.core.window import StyleProfile as StyleProfile
    from clew.core.window import WindowThread as WindowThread
    from clew.drivers.llm.scripted import ScriptedLLM as ScriptedLLM
    from clew.drivers.store.base import BaseBackend as BaseBackend
    from clew.engine import Engine as Engine
    from clew.engine.opened import Extensions as Extensions
    from clew.engine.sessions import ChatSession as ChatSession
    from clew.index.read.sections import split_into_sections as split_into_sections
    from clew.query.agent.tools import Toolbox as Toolbox
    from clew.query.agent.tools import ToolResult as ToolResult
    from clew.query.context.format.renderers import Render as Render
    from clew.query.context.format.renderers import RenderInput as RenderInput
    from clew.query.context.session import Sessions as Sessions
    from clew.query.messages.table import ArrowTable as ArrowTable
    from clew.query.messages.table import Table as Table
    from clew.query.search.compose import fan_out as fan_out
    from clew.query.search.compose import fuse as fuse
    from clew.query.search.compose import pipe as pipe
    from clew.query.search.compose import reflect as reflect
    from clew.query.search.strategies import Drivers as Drivers
    from clew.query.search.strategies import StrategyFactory as StrategyFactory
    from clew.query.search.strategies import auto as auto
    from clew.query.search.strategies import chunked as chunked
    from clew.query.search.strategies import document_boost as document_boost
    from clew.query.search.strategies import hybrid as hybrid
    from clew.query.search.strategies import lexical as lexical
    from clew.query.search.strategies import multi_query as multi_query
    from clew.query.search.strategies import rerank as rerank
    from clew.query.search.strategies import self_reflective as self_reflective
    from clew.query.search.strategies import semantic as semantic

# The module of each name; `from … import` above tells type checkers the same.
_HOMES = {
    "clew.client.client": "AsyncClient Client",
    "clew.client.transport": "ServerError",
    "clew.core.answer": "Answer AnswerPart AnswerSentence RemovedSentence SupportVerdict",
    "clew.core.attribution": "PassageMessage",
    "clew.core.calibration": "Calibration",
    "clew.core.cite": "Citation CitationCheck Context DroppedPassage MergedChunk",
    "clew.core.stored": "CollectionRecord DroppedCollection Manifest",
    "clew.core.doctor": "Defect DoctorReport",
    "clew.core.errors": (
        "ClewError CollectionDamaged CollectionLost ConcurrentChange CostLimit DriverFailed DriverMissing "
        "LimitReached ModelSwitched NotFound ReadOnlyStore SettingsError SourceError StoreMismatch "
        "UnsupportedAnswer"
    ),
    "clew.core.events": (
        "AnswerEvent EventStream FinalEvent SentenceEvent StepEvent StepStartEvent TokenEvent VerdictEvent"
    ),
    "clew.core.explanation": "Explanation Fix WhyNot",
    "clew.core.filter": "EVERYTHING Filter",
    "clew.core.jobs": "Job",
    "clew.core.protocols": (
        "Chunker Embedder Enricher Fuse Judge LLM LLMFailure Reader Reranker Rewrite SearchableStore Step Strategy "
        "Verdict Verifier"
    ),
    "clew.core.report": "OnProgress PassedOver Plan Progress Receipt Report SourceFailure",
    "clew.core.settings": (
        "AgentConfig AnswerConfig ContextConfig ConversationConfig EmbedderConfig FlowConfig FormatterConfig "
        "HistoryConfig IngestionConfig JobConfig LLMConfig MergerConfig QueryTransformerConfig RerankerConfig "
        "ScoringConfig SearchConfig ServerConfig SessionConfig Settings StoreConfig ThreadConfig"
    ),
    "clew.core.thread": "Thread",
    "clew.core.trace": "Trace record",
    "clew.core.types": "Chunk Document DocumentRecord Hit Matrix Message Query Section StoreStats Vector",
    "clew.core.usage": "Usage record_usage",
    "clew.core.window": "ContextMessage ContextWindow DroppedMessage Links StyleProfile WindowThread",
    "clew.drivers.llm.scripted": "ScriptedLLM",
    "clew.drivers.store.base": "BaseBackend",
    "clew.engine": "Engine",
    "clew.engine.opened": "Extensions",
    "clew.engine.sessions": "ChatSession",
    "clew.index.read.sections": "split_into_sections",
    "clew.query.agent.tools": "ToolResult Toolbox",
    "clew.query.context.format.renderers": "Render RenderInput",
    "clew.query.context.session": "Sessions",
    "clew.query.search.compose": "fan_out fuse pipe reflect",
    "clew.query.search.strategies": (
        "Drivers StrategyFactory auto chunked document_boost hybrid lexical multi_query rerank self_reflective semantic"
    ),
    "clew.query.messages.table": "ArrowTable Table",
}
__all__ = list_names(_HOMES)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    is_apart = name in import_module("clew.evaluation").__all__  # a name for evaluation and tuning
    hint = f"; it is in clew.evaluation: from clew.evaluation import {name}" if is_apart else ""
    return import_name(globals(), _HOMES, name, hint=hint)


def __dir__() -> list[str]:
    return __all__
