"""PgBouncer in transaction mode before a server, where it is installed: two of its connections serve all clients."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict

PGBOUNCER = shutil.which(os.environ.get("CLEW_TEST_PGBOUNCER", "pgbouncer"))
SECONDS = 10.0  # to start


@contextmanager
def started_pooler(server: str) -> Iterator[str]:
    """The address of a pooler before the server, for any of its databases: give it the path of the database."""
    assert PGBOUNCER is not None
    own = conninfo_to_dict(server)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with TemporaryDirectory() as folder:
        config = Path(folder) / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host={own['host']} user={own['user']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
            "default_pool_size = 2\nserver_lifetime = 0\n"
        )
        Path(folder).chmod(0o755)
        user = Path(str(own["host"])).owner()
        program = [PGBOUNCER, "-q", *(["-u", user] if os.getuid() == 0 else []), str(config)]
        with subprocess.Popen(program, stderr=subprocess.PIPE) as process:
            try:
                _wait_for(port, process)
                yield f"postgresql://{own['user']}@127.0.0.1:{port}/postgres"
            finally:
                process.terminate()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    process.terminate()
    raise RuntimeError(f"PgBouncer did not start: {process.stderr.read() if process.stderr else ''!r}")


def find_database(pooler: str, url: str) -> str:
    """The address of a database through the pooler."""
    return urlsplit(pooler)._replace(path=urlsplit(url).path).geturl()
