"""What is added to chunks before they are embedded: context sentences, code scopes, document summaries."""
