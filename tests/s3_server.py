"""An S3 server on this machine, in a thread: moto's, which answers one request at a time, so that no two can race."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

KEY, SECRET, REGION = "tester", "not-so-secret-key", "us-east-1"
REFUSAL = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code>'
    b"<Message>The AWS Access Key Id you provided does not exist in our records.</Message></Error>"
)


def _refuse_strangers(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """The application for those who sign as the tester; others are refused, as by S3."""

    def guarded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        signed = environ.get("HTTP_AUTHORIZATION", "")
        if signed and f"Credential={KEY}/" not in signed:
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [REFUSAL]
        return app(environ, start_response)

    return guarded


@contextmanager
def started_s3() -> Iterator[str]:
    """The address of a server without buckets."""
    import logging

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, _refuse_strangers(app))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def make_bucket(server: str, name: str) -> None:
    """Makes an empty bucket."""
    with urlopen(Request(f"{server}/{name}", method="PUT")):
        pass


def make_address(server: str, bucket: str, *, key: str = KEY) -> str:
    """The address of a collection there, with the key and everything else that is needed."""
    options = f"endpoint={server}&allow_http=true&region={REGION}&client_max_retries=1"
    return f"s3://{bucket}/team?{options}&access_key_id={key}&secret_access_key={SECRET}"
