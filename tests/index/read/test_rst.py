"""reStructuredText: what a reader of the page would see, and its sections."""

from clew.core.types import Document
from clew.index.read.text.plain import read_rst


def read_page(text: str) -> Document:
    return read_rst(text, uri="a.rst", name="guide.rst")


def test_titles_directives_lists_and_code() -> None:
    found = read_page(
        """:orphan:

.. _guide:

=====
Guide
=====

See :ref:`the keys <keys>` and `the vault <https://vault.example>`_, ``max_skew`` too.

.. a comment
   of two lines

Options
-------

.. pip-command-options:: hash

.. toctree::
   :maxdepth: 2

   install

.. note:: Ask Ada.

   She knows:

   - one
     more
   - two

Run::

    # not a heading
    vault rotate

.. code-block:: sh
   :caption: x

   vault lock

.. py:function:: open(key)

   Opens it.

====  ====
a     b
====  ====
1     2
====  ====
"""
    )
    assert found.text == (
        "# Guide\n\nSee the keys and the vault (https://vault.example), `max_skew` too.\n\n## Options\n\nAsk Ada.\n\n"
        "She knows:\n\n- one\n  more\n- two\n\nRun:\n\n```\n# not a heading\nvault rotate\n```\n\n```sh\nvault lock\n"
        "```\n\nopen(key)\n\nOpens it.\n\n| a | b |\n| - | - |\n| 1 | 2 |"
    )
    assert [found.heading_path(at) for at in range(len(found.sections))] == [("Guide",), ("Guide", "Options")]
    assert found.title == "Guide"


def test_what_a_page_shows_of_a_role_is_its_text() -> None:
    text = "`fields.Email <vault.fields.Email>` and `the site <https://vault.example>`_ of `Ada <ada>`_."
    assert read_page(text).text == "fields.Email and the site (https://vault.example) of Ada (ada)."


def test_deep_nesting_is_read_to_the_end() -> None:
    text = "\n".join("   " * depth + ".. note::\n" for depth in range(300)) + "\n" + "   " * 300 + "The last words."
    assert "The last words." in read_page(text).text


def test_a_page_of_nothing_but_a_directive_is_read_as_it_is_written() -> None:
    assert read_page(".. include:: ../NEWS.txt\n").text == ".. include:: ../NEWS.txt\n"


def test_versions_short_rules_and_lists_that_are_tables() -> None:
    found = read_page(
        """Vault
====

.. versionadded:: 2.1
   The ``ttl`` option.

.. versionchanged:: 3.0 It is in seconds.

.. deprecated:: 4

Options of the vault
----

.. list-table:: Options
   :header-rows: 1

   * - Name
     - Meaning
   * - ``ttl``
     - How long
       it lasts:

       - in seconds

Not
--
a title
"""
    )
    assert found.text == (
        "# Vault\n\nAdded in version 2.1:\nThe `ttl` option.\n\nChanged in version 3.0: It is in seconds.\n\n"
        "Deprecated since version 4\n\n## Options of the vault\n\nOptions\n\n| Name | Meaning |\n| - | - |\n"
        "| `ttl` | How long it lasts: - in seconds |\n\nNot\n\\--\na title"
    )
    assert found.title == "Vault"


def test_tables_that_are_drawn_with_rules() -> None:
    found = read_page(
        """\
=====  =====  ======
   Inputs     Output
------------  ------
  A      B    A or B
=====  =====  ======
False  False  ``no``
True   False  yes,
              always
=====  =====  ======

.. table:: Ports

   +---------------+-------+------+
   | Service       | Port  | TLS  |
   | (all of them) |       |      |
   +===============+=======+======+
   | vault         | 8200  | yes  |
   +---------------+-------+------+
   | mirror        | shared with  |
   +---------------+-------+------+

====  ====
not a table, since no rule ends it
"""
    )
    assert found.text == (
        "| Inputs |  | Output |\n| - | - | - |\n| A | B | A or B |\n| False | False | `no` |\n"
        "| True | False | yes, always |\n\nPorts\n\n"
        "| Service (all of them) | Port | TLS |\n| - | - | - |\n| vault | 8200 | yes |\n| mirror | shared with |\n\n"
        "not a table, since no rule ends it"
    )


def test_a_role_that_names_a_standard_keeps_its_name() -> None:
    assert read_page(":PEP:`8`, :rfc:`2822 <mail>` and :func:`~os.path`").text == "PEP 8, RFC 2822 and os.path"


def test_options_that_say_what_is_true_are_text_and_those_of_the_layout_are_not() -> None:
    found = read_page(
        """\
.. conf::
   :keys: requires
   :default: <empty list>
   :class: wide

   What is installed first.

.. csv-table:: Ports
   :header: "Service", "Port"
   :widths: 10, 10

   "vault, main", 8200

.. image:: mast.png
   :alt: a mast
"""
    )
    assert found.text == (
        "keys: requires\ndefault: <empty list>\n\nWhat is installed first.\n\n"
        "Ports\n\n| Service | Port |\n| - | - |\n| vault, main | 8200 |"
    )


def test_a_table_of_commas_that_cannot_be_read_is_text() -> None:
    long = "x" * 200_000
    assert long in read_page(f".. csv-table:: Ports\n\n   {long}, 1\n").text
