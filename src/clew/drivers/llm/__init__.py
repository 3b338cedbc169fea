"""Language models behind the LLM protocol: hosted, local and scripted ones, and a cache around any of them."""
