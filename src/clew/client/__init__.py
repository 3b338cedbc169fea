"""A client of the server: the verbs over HTTP, with typed dictionaries as replies.

with Client("http://127.0.0.1:8080", key="clew_…") as client:
    for hit in client.search("what if a key is known to others?")["hits"]:
        print(hit["relevance"], hit["document"]["title"])
"""

from clew.client.client import AsyncClient as AsyncClient
from clew.client.client import Client as Client
from clew.client.transport import ServerError as ServerError
