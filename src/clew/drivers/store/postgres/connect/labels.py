"""Labels of access on a connection: the server then shows it what they admit, whatever a statement asks for."""

from collections.abc import Sequence

from psycopg import Connection

from clew.core.facets import make_label_facets
from clew.drivers.store.postgres import binary

Access = Sequence[str] | None  # the labels of who reads; None: all is seen


def limit_to_labels(connection: Connection, access: Sequence[str], *, is_local: bool = False) -> None:
    """Makes a connection, or its transaction, see what has one of the labels, and what has none, and only read.

    Statements then read the views of `clew_seen` in place of the tables of the same names: they have the sizes of
    hidden messages, by which places in a thread are added up. A superuser is free of row-level security; it keeps the
    tables, and only the filter of the engine holds.
    """
    labels = ",".join(str(binary.hash_facet(facet)) for facet in sorted(make_label_facets(access)))
    connection.execute(
        "SELECT set_config('clew.access', %(labels)s, %(local)s), set_config(%(read_only)s, 'on', %(local)s),"
        " set_config('search_path',"
        " CASE WHEN row_security_active('clew.chunks') THEN 'clew_seen, ' ELSE '' END"
        " || current_setting('search_path'), %(local)s)",
        {
            "labels": f"{{{labels}}}",
            "read_only": "transaction_read_only" if is_local else "default_transaction_read_only",
            "local": is_local,
        },
    )
