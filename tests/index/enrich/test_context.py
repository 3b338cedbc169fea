"""Which definitions a place in code stands in."""

import pytest

from clew.index.enrich.context import find_enclosing_definitions, find_first_definition

PYTHON = '''import re

LIMIT = 3


class Buoy(Float):
    """A buoy."""

    def drift(self, miles: int) -> int:
        # where to
        for mile in range(miles):
            if mile > LIMIT:
                logging.debug(
                    "far out",
                )
        return miles

    @property
    def lamp(self) -> Lamp:
        return self._lamp
'''
JAVA = """/*
 * A licence.
 */
package org.sea;

import java.util.List;

public class Harbour
{
    private int berths;

    public static List<Ship> waiting(
        int most,
        String flag)
    {
        try {
            int found = 0;
            return found;
        } finally {
            close();
        }
    }
}
"""
CPP = """#pragma once
struct Rope;

namespace sea {

class Anchor : public Iron {
public:
    /// How heavy.
    int Weight() const;
private:
    int weight_;
};

}
"""
RUST = """use std::{
    fmt::Debug,
};

pub struct Chart<S> {
    scale: S,
}

impl<S> Chart<S>
where
    S: Debug,
{
    fn draw(
        &self,
    ) -> Result<(), Error>
    where
        S: Copy,
    {
        self.ink();
    }
}
"""


@pytest.mark.parametrize(
    ("text", "place", "path"),
    [
        (PYTHON, "import re", ()),
        (PYTHON, "class Buoy", ()),
        (PYTHON, "def drift", ("class Buoy(Float)",)),
        (PYTHON, "# where to", ("class Buoy(Float)", "def drift(self, miles: int) -> int")),
        (PYTHON, '"far out"', ("class Buoy(Float)", "def drift(self, miles: int) -> int")),
        (PYTHON, "@property", ("class Buoy(Float)",)),
        (JAVA, "private int", ("public class Harbour",)),
        (JAVA, "return found", ("public class Harbour", "public static List<Ship> waiting")),
        (JAVA, "close()", ("public class Harbour", "public static List<Ship> waiting")),
        (CPP, "int Weight", ("class Anchor : public Iron",)),
        (CPP, "private:", ("class Anchor : public Iron",)),
        (RUST, "self.ink", ("impl<S> Chart<S>", "fn draw")),
        (RUST, "scale", ("pub struct Chart<S>",)),
    ],
)
def test_a_place_stands_in_the_definitions_above_it_that_are_indented_less(
    text: str, place: str, path: tuple[str, ...]
) -> None:
    assert find_enclosing_definitions(text, text.index(place)) == path


def test_an_edit_elsewhere_changes_nothing() -> None:
    edited = PYTHON.replace("LIMIT = 3", "LIMIT = 4\nMORE = 5").replace("far out", "far, far out")
    assert find_enclosing_definitions(edited, edited.index("return self")) == find_enclosing_definitions(
        PYTHON, PYTHON.index("return self")
    )


def test_tabs_are_indentation_too() -> None:
    text = "func main() {\n\tfor {\n\t\trow()\n\t}\n}\n"
    assert find_enclosing_definitions(text, text.index("row")) == ("func main()",)


@pytest.mark.parametrize("text", ["", "\n\n", "   ", "    x", "}\n", "\t}\n  )"])
def test_odd_places_stand_in_nothing(text: str) -> None:
    assert find_enclosing_definitions(text, len(text)) == ()
    assert find_first_definition(text) == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (PYTHON, "class Buoy(Float)"),
        (JAVA, "public class Harbour"),
        (CPP, "class Anchor : public Iron"),
        (RUST, "pub struct Chart<S>"),
        ("x = 1\ny = 2\n", ""),
    ],
)
def test_a_file_is_named_by_what_it_defines_first(text: str, name: str) -> None:
    assert find_first_definition(text) == name
