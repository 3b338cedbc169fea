"""Tables and records with sentences about their cells: look-ups, comparisons, extremes, counts, and rows that are not there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from studies.support.grammar import capitalise
from studies.support.values import make_value


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its header, how a cell is drawn, and how to say a cell, the comparison and the extremes."""

    header: str
    draw: Callable[[Random], tuple[float, str, str]]  # the number, how the table writes it and how a sentence does
    says: tuple[str, ...]
    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()
    most: tuple[str, ...] = ()
    least: tuple[str, ...] = ()


def _number(
    numbers: Sequence[float], unit: str, *, in_cell: bool = False
) -> Callable[[Random], tuple[float, str, str]]:
    def draw(rng: Random) -> tuple[float, str, str]:
        number = rng.choice(numbers)
        said = f"{unit}{number:,g}" if unit in ("€", "$", "£") else f"{number:,g} {unit}".strip()
        return number, (said if in_cell else f"{number:g}"), said

    return draw


def _word(kind: str) -> Callable[[Random], tuple[float, str, str]]:
    def draw(rng: Random) -> tuple[float, str, str]:
        value = make_value(kind, rng)
        return 0.0, value.forms[0], value.pick(rng)

    return draw


def _chosen(words: str) -> Callable[[Random], tuple[float, str, str]]:
    def draw(rng: Random) -> tuple[float, str, str]:
        word = rng.choice(words.split("|"))
        return 0.0, word, word

    return draw


COLUMNS: tuple[Column, ...] = (
    Column("Weight (kg)", _number((2, 3, 4.5, 6, 8, 9.5, 12, 15, 18, 22), "kg"), ("{0} weighs {1}.", "The weight of {0} is {1}."), ("{0} is heavier than {1}.", "{0} weighs more than {1}."), ("{0} is lighter than {1}.", "{0} weighs less than {1}."), ("{0} is the heaviest.", "Nothing in the list is heavier than {0}."), ("{0} is the lightest.", "{0} weighs the least.")),
    Column("Price", _number((12, 18, 25, 40, 55, 79, 99, 120, 180, 240, 310), "€", in_cell=True), ("{0} costs {1}.", "The price of {0} is {1}.", "You pay {1} for {0}."), ("{0} is more expensive than {1}.", "{0} costs more than {1}."), ("{0} is cheaper than {1}.", "{0} costs less than {1}."), ("{0} is the most expensive.", "{0} has the highest price."), ("{0} is the cheapest.", "{0} has the lowest price.")),
    Column("Noise (dB)", _number((31, 35, 38, 42, 44, 47, 51, 55, 60, 66), "dB"), ("{0} makes a noise of {1}.", "The noise level of {0} is {1}."), ("{0} is louder than {1}.",), ("{0} is quieter than {1}.",), ("{0} is the loudest.",), ("{0} is the quietest.",)),
    Column("Count", _number((3, 8, 12, 17, 24, 40, 65, 90, 120, 144, 200, 310), ""), ("There are {1} of {0}.", "The count for {0} is {1}.", "{0} has a count of {1}."), ("There are more of {0} than of {1}.",), ("There are fewer of {0} than of {1}.",), ("{0} has the highest count.",), ("{0} has the lowest count.",)),
    Column("Score", _number((41, 48, 52, 57, 63, 66, 70, 74, 81, 88, 93), "points"), ("{0} scored {1}.", "{0} got {1}.", "The score of {0} is {1}."), ("{0} scored higher than {1}.", "{0} beat {1}."), ("{0} scored lower than {1}.", "{0} got fewer points than {1}."), ("{0} has the best score.", "{0} came first."), ("{0} has the worst score.", "{0} came last.")),
    Column("Revenue (m)", _number((1.2, 2.5, 3.1, 4.8, 6.4, 7.7, 9.3, 11.2, 14.5), "million"), ("The revenue of {0} was {1}.", "{0} had a revenue of {1}.", "{0} took in {1}."), ("{0} had more revenue than {1}.",), ("{0} had less revenue than {1}.",), ("{0} had the highest revenue.",), ("{0} had the lowest revenue.",)),
    Column("Seats", _number((12, 20, 24, 30, 45, 60, 80, 110, 150, 220), "seats"), ("{0} has {1}.", "There are {1} in {0}.", "{0} seats {1} people."), ("{0} has more seats than {1}.",), ("{0} has fewer seats than {1}.",), ("{0} has the most seats.",), ("{0} has the fewest seats.",)),
    Column("Distance (km)", _number((3, 7, 12, 15, 21, 28, 34, 42, 55), "km"), ("The distance for {0} is {1}.", "{0} is {1} away.", "It is {1} to {0}."), ("{0} is farther away than {1}.",), ("{0} is nearer than {1}.",), ("{0} is the farthest away.",), ("{0} is the nearest.",)),
    Column("Founded", _number((1921, 1934, 1948, 1957, 1963, 1975, 1986, 1999, 2008, 2015), ""), ("{0} was founded in {1}.", "{0} has existed since {1}."), ("{0} was founded later than {1}.", "{0} is younger than {1}."), ("{0} was founded earlier than {1}.", "{0} is older than {1}."), ("{0} is the youngest.",), ("{0} is the oldest.",)),
    Column("Shelf", _chosen("S1|S2|S3|S4|S5|S6|S7|B1|B2|B3|B4|C11|C12|C14"), ("{0} is on shelf {1}.", "You find {0} on shelf {1}.", "Shelf {1} holds {0}.")),
    Column("Colour", _chosen("red|green|blue|black|white|yellow|grey|brown|orange"), ("{0} is {1}.", "The colour of {0} is {1}.")),
    Column("Status", _chosen("open|closed|pending|rejected|approved|draft|overdue|paid"), ("{0} is {1}.", "The status of {0} is {1}.")),
    Column("Owner", _word("person"), ("{0} belongs to {1}.", "The owner of {0} is {1}.", "{1} owns {0}.")),
    Column("Contact", _word("person"), ("The contact for {0} is {1}.", "For {0}, ask {1}.", "{1} is the contact for {0}.")),
    Column("Location", _word("place"), ("{0} is in {1}.", "The location of {0} is {1}.", "You find {0} in {1}.")),
    Column("Due", _word("date"), ("{0} is due on {1}.", "The due date of {0} is {1}.", "{0} has to be ready on {1}.")),
    Column("Opens", _word("time"), ("{0} opens at {1}.", "The opening time of {0} is {1}.")),
    Column("Closes", _word("time"), ("{0} closes at {1}.", "The closing time of {0} is {1}.")),
    Column("Day", _word("weekday"), ("{0} is on {1}.", "The day for {0} is {1}.")),
    Column("Interval", _word("often"), ("{0} is done {1}.", "For {0}, the interval is {1}.")),
    Column("Limit", _word("money"), ("The limit for {0} is {1}.", "{0} may cost up to {1}.", "At most {1} may be spent on {0}.")),
)  # fmt: skip
_ROWS = {"product": ("Model", "Product", "Name"), "org": ("Company", "Organisation"), "place": ("Place", "Site"), "person": ("Name", "Person"), "item": ("Item", "What"), "team": ("Team", "Department")}  # fmt: skip


def make_table(rng: Random) -> tuple[str, str, int]:
    """A table or a record, a sentence about it, and whether it holds."""
    kind = rng.choice(tuple(_ROWS))
    names: list[str] = []
    while len(names) < rng.randrange(3, 10):
        name = make_value(kind, rng).forms[0]
        name = name.removeprefix("the ") if rng.random() < 0.7 else name
        if name not in names:
            names.append(name)
    columns = rng.sample(COLUMNS, rng.randrange(1, 5))
    missing, names = names[-1], names[:-1]
    cells = [[column.draw(rng) for column in columns] for _ in names]
    head = rng.choice(_ROWS[kind])
    row, at = rng.randrange(len(names)), rng.randrange(len(columns))
    claim, label = _make_claim(names, columns[at], [line[at] for line in cells], row, missing, cells[row], rng)
    shown = range(len(names))
    if "{" not in claim and rng.random() < 0.3 and not columns[at].more:
        shown = range(row, row + 1)  # one row with its header
    return _write(head, columns, names, cells, shown, rng), capitalise(claim), label


def _make_claim(
    names: Sequence[str],
    column: Column,
    cells: Sequence[tuple[float, str, str]],
    row: int,
    missing: str,
    line: Sequence[tuple[float, str, str]],
    rng: Random,
) -> tuple[str, int]:
    draw = rng.random()
    if column.more and draw < 0.25 and len(names) > 1:
        other = rng.choice([at for at in range(len(names)) if at != row])
        if cells[row][0] != cells[other][0]:
            true = rng.random() < 0.5
            ways = column.more if (cells[row][0] > cells[other][0]) == true else column.less
            return rng.choice(ways).format(names[row], names[other]), int(true)
    if column.most and draw < 0.45:
        ordered = sorted(range(len(names)), key=lambda at: cells[at][0])
        values = [cell[0] for cell in cells]
        if values.count(max(values)) == values.count(min(values)) == 1:
            high = rng.random() < 0.5
            right = ordered[-1] if high else ordered[0]
            true = rng.random() < 0.5 or len(names) < 2
            chosen = right if true else rng.choice([at for at in range(len(names)) if at != right])
            return rng.choice(column.most if high else column.least).format(names[chosen]), int(true)
    says = rng.choice(column.says)
    if rng.random() < 0.5:
        return says.format(names[row], cells[row][2]), 1
    if rng.random() < 0.15:
        return says.format(missing, cells[row][2]), 0
    others = [cell[2] for cell in cells if cell[1] != cells[row][1]]
    others += [drawn[2] for drawn in (column.draw(rng) for _ in range(2)) if drawn[1] != cells[row][1]]
    others += [cell[2] for cell in line if cell[1] != cells[row][1] and cell[0] > 0 and cells[row][0] > 0]
    return (says.format(names[row], rng.choice(others)), 0) if others else (says.format(names[row], cells[row][2]), 1)


def _write(
    head: str,
    columns: Sequence[Column],
    names: Sequence[str],
    cells: Sequence[Sequence[tuple[float, str, str]]],
    shown: Sequence[int],
    rng: Random,
) -> str:
    headers = [head, *(column.header for column in columns)]
    rows = [[names[at], *(cell[1] for cell in cells[at])] for at in shown]
    draw = rng.random()
    if draw < 0.5:
        rule = ["|" + "---|" * len(headers)] if rng.random() < 0.5 else []
        return "\n".join([f"| {' | '.join(headers)} |", *rule, *(f"| {' | '.join(row)} |" for row in rows)])
    if draw < 0.65:
        mark = rng.choice((", ", "\t", "; "))
        return "\n".join(mark.join(row) for row in (headers, *rows))
    if draw < 0.85:
        return "\n".join(
            "; ".join(f"{header}: {cell}" for header, cell in zip(headers, row, strict=True)) for row in rows
        )
    return "\n\n".join(
        "\n".join(f"{header}: {cell}" for header, cell in zip(headers, row, strict=True)) for row in rows
    )
