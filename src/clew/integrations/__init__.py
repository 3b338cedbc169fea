"""Adapters to other frameworks, one file each; none is imported before it is asked for.

langchain    ClewRetriever: a retriever
llama_index  ClewRetriever: a retriever
haystack     ClewRetriever: a component
pydantic_ai  make_toolset: tools for an agent
"""
