"""Adapters to other frameworks, one file each, imported only on demand.

langchain    ClewRetriever: a retriever
llama_index  ClewRetriever: a retriever
haystack     ClewRetriever: a component
pydantic_ai  make_toolset: tools for an agent
"""
