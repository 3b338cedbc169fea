"""The phrases that `makers` puts together; those in one tuple mean the same."""

from dataclasses import dataclass
from typing import Final

CONDITIONS: Final = (  # (when it holds, when it does not)
    (("if it rains", "when it rains", "in case of rain"), ("unless it rains", "if it does not rain", "as long as it stays dry")),
    (("if the manager agrees", "with the manager's consent", "provided that the manager agrees"), ("unless the manager agrees", "without the manager's consent", "if the manager does not agree")),
    (("on working days", "from Monday to Friday", "except at weekends"), ("at weekends", "on Saturdays and Sundays", "except on working days")),
    (("during the school holidays", "when the schools are closed"), ("outside the school holidays", "except during the school holidays", "when the schools are open")),
    (("if the tank is full", "once the tank is full", "when the tank is full"), ("unless the tank is full", "as long as the tank is not full", "if the tank is not full")),
    (("in an emergency", "in emergencies", "if there is an emergency"), ("except in an emergency", "unless there is an emergency", "in the absence of an emergency")),
    (("in summer", "during the summer", "in the summer months"), ("except in summer", "outside the summer months", "at any time but the summer")),
    (("if the invoice is paid late", "when payment is late", "in case of late payment"), ("if the invoice is paid on time", "unless payment is late", "when payment is on time")),
    (("for people over 65", "if one is older than 65", "for those aged more than 65"), ("for people under 65", "if one is younger than 65", "except for people over 65")),
    (("if the alarm is off", "while the alarm is switched off", "when the alarm is not on"), ("if the alarm is on", "while the alarm is switched on", "unless the alarm is off")),
    (("after the trial period", "once the trial period is over", "when the trial period has ended"), ("during the trial period", "before the trial period is over", "until the trial period ends")),
    (("if a doctor has signed", "with a doctor's signature", "provided a doctor has signed"), ("unless a doctor has signed", "without a doctor's signature", "if no doctor has signed")),
    (("with a valid ticket", "if one has a valid ticket", "for holders of a valid ticket"), ("without a valid ticket", "if one has no valid ticket", "unless one has a valid ticket")),
    (("if both sides agree", "with the agreement of both sides", "when both parties agree"), ("unless both sides agree", "without the agreement of both sides", "if one side does not agree")),
    (("at night", "during the night", "at night time"), ("during the day", "in the daytime", "except at night")),
    (("if the parcel weighs more than 5 kg", "for parcels over 5 kg"), ("if the parcel weighs less than 5 kg", "for parcels under 5 kg")),
    (("for orders above 50 euros", "if the order is over 50 euros"), ("for orders below 50 euros", "unless the order is over 50 euros")),
    (("when the server is down", "if the server is not available", "while the server is offline"), ("when the server is up", "if the server is available", "unless the server is down")),
    (("if nobody objects", "unless somebody objects", "provided there is no objection"), ("if somebody objects", "in case of an objection", "when an objection is made")),
    (("before the deadline", "if it is done before the deadline", "until the deadline has passed"), ("after the deadline", "once the deadline has passed", "when the deadline is over")),
    (("on public holidays", "when there is a public holiday"), ("except on public holidays", "on all days but public holidays", "unless there is a public holiday")),
    (("in writing", "if it is put in writing"), ("by word of mouth", "without anything in writing", "orally")),
    (("if the test is positive", "after a positive test", "when the test comes back positive"), ("if the test is negative", "after a negative test", "unless the test is positive")),
    (("in the test environment", "when testing"), ("in production", "outside the test environment")),
    (("with a member card", "for card holders", "if one has a member card"), ("without a member card", "for those who have no member card", "unless one has a member card")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantity:
    """A share of a group, the shares that follow from it and those that do not."""

    name: str
    ways: tuple[str, ...]
    against: tuple[str, ...]
    implies: tuple[str, ...] = ()


QUANTITIES: Final = (
    Quantity(
        "all",
        ("all {}", "all of the {}", "every one of the {}", "the {} without exception"),
        ("few", "none", "half"),
        ("some",),
    ),
    Quantity(
        "most",
        ("most {}", "most of the {}", "the majority of {}", "more than half of the {}"),
        ("all", "few", "none", "half"),
        ("some",),
    ),
    Quantity("half", ("half of the {}", "50 % of the {}", "one in two {}"), ("all", "most", "few", "none"), ("some",)),
    Quantity(
        "few",
        ("few {}", "only a few of the {}", "a small minority of the {}", "hardly any {}"),
        ("all", "most", "none", "half"),
    ),
    Quantity("none", ("no {}", "none of the {}", "not a single one of the {}"), ("all", "most", "few", "some", "half")),
    Quantity("some", ("some {}", "some of the {}", "a number of the {}"), ("all", "most", "none")),
)
MODALS: Final = (
    ("may", "can", "are allowed to", "are permitted to"),
    ("must", "have to", "are required to", "are obliged to"),
    ("must not", "may not", "are not allowed to", "are forbidden to", "cannot"),
    ("need not", "do not have to", "are not required to", "are not obliged to"),
)
FREQUENCIES: Final = (  # neighbours are too close to be told apart
    ("{} always {}.", "{} {} every time.", "{} {} without fail."),
    ("{} usually {}.", "most of the time, {} {}.", "as a rule, {} {}."),
    ("{} sometimes {}.", "now and then, {} {}.", "{} {} from time to time."),
    ("{} rarely {}.", "{} seldom {}.", "it is rare that {} {}."),
    ("{} never {}.", "at no time do {} {}.", "{} do not ever {}."),
)
HABITS: Final = tuple(
    """use the back entrance|read the instructions|check the seals|bring their own tools|work at weekends|park on the street|
    ask for a receipt|take part in the survey|answer the phone|wear gloves|test the alarm|pay in cash|use the lift|fill in the form|
    cancel at short notice|arrive late|order in advance|lock the cabinet|report small faults|take the night train""".replace(
        "\n    ", ""
    ).split("|")
)
ACTIONS: Final = tuple(
    tuple(way.strip() for way in line.split("|"))
    for line in """park in the yard | leave their cars in the yard
    sign the visitor book | put their names in the visitor book
    use the photocopier | make copies on the photocopier
    bring food into the library | take food into the library
    take photographs | take pictures
    leave the building during the break | go outside during the break
    wear protective glasses | put on safety glasses
    install software | install programs
    copy customer data | make copies of customer data
    open the windows | keep the windows open
    work overtime | do overtime
    book meeting rooms | reserve meeting rooms
    change the thermostat | adjust the heating
    take the fire stairs | use the emergency stairs
    hand in a medical certificate | submit a doctor's note
    carry an identity card | have an identity card with them
    attend the safety briefing | go to the safety briefing
    approve invoices | sign off invoices
    publish results | make results public
    accept gifts | take presents
    keep pets | have animals
    use the swimming pool | swim in the pool
    play music after ten in the evening | make music after 10 pm
    drive the forklift | operate the forklift
    drink alcohol on site | have alcoholic drinks on the premises
    share passwords | tell others their passwords
    use private devices | work on devices of their own
    rent out the flat | sublet the flat
    enter the laboratory alone | go into the laboratory on their own
    restart the server | reboot the server
    delete old records | remove old records
    charge phones at the desk | plug in phones at the desk""".splitlines()
)
DEEDS: Final = tuple(
    tuple(way.strip() for way in line.split("|"))
    for line in """signed the contract | put a signature under the contract
    closed the ticket | marked the ticket as closed
    wrote the summary | authored the summary
    rejected the offer | turned the offer down
    accepted the offer | said yes to the offer
    repaired the roof | fixed the roof
    painted the fence | gave the fence a coat of paint
    ordered new chairs | placed an order for new chairs
    found the error | discovered the mistake
    caused the error | made the mistake
    checked the figures | verified the numbers
    paid for lunch | covered the cost of lunch
    missed the train | came too late for the train
    caught the train | got to the train in time
    won the tender | came out first in the tender
    lost the tender | failed to win the tender
    left early | went home early
    stayed until the end | did not leave before the end
    asked for more time | requested an extension
    voted against the plan | rejected the plan in the vote
    voted for the plan | supported the plan in the vote
    moved to Lisbon | relocated to Lisbon
    moved to Oslo | relocated to Oslo
    raised prices | increased prices
    cut prices | lowered prices
    hired ten people | took on ten new people
    laid off ten people | let ten people go
    opened a second shop | started another shop
    closed a shop | shut down a shop
    donated the piano | gave the piano as a gift
    bought the piano | paid for the piano and took it
    tested the new pump | tried out the new pump
    broke the window | smashed the window
    cleaned the filters | gave the filters a cleaning
    changed the locks | put in new locks
    lost the keys | could not find the keys any more
    wrote the test plan | drew up the test plan
    ran the tests | carried out the tests
    apologised to the guests | said sorry to the guests
    complained about the noise | objected to the noise
    trained the volunteers | gave the volunteers their training
    booked the hall | reserved the hall
    cancelled the booking | called off the booking
    delivered the parts | brought the parts
    received the parts | got the parts
    restored the database | brought the database back
    deleted the database | erased the database
    translated the manual | put the manual into another language
    printed the posters | had the posters printed
    took the minutes | wrote the record of the meeting
    chaired the meeting | led the meeting
    gave the opening speech | spoke at the opening
    got a refund | received the money back
    paid a fine | had to pay a penalty
    got a bonus | received a bonus
    fell ill | became sick
    changed the password | set a new password
    renewed the licence | extended the licence""".splitlines()
)
LISTS: Final = (  # (heading, a member, one that is left out)
    ("The package includes", "{} is included in the package.", "{} is not included in the package."),
    ("Insured", "{} is insured.", "{} is not insured."),
    ("On duty this week", "{} is on duty this week.", "{} is not on duty this week."),
    ("Delivered so far", "{} is among what has been delivered.", "{} has not been delivered."),
    ("To be replaced this year", "{} is to be replaced this year.", "{} will not be replaced this year."),
    ("Nominated for the prize", "{} is nominated for the prize.", "{} is not nominated for the prize."),
    ("Closed until further notice", "{} is closed until further notice.", "{} is not closed."),
    ("Approved by the committee", "{} is approved by the committee.", "{} is not approved by the committee."),
    ("Sold out", "{} is sold out.", "{} is not sold out."),
    ("Under investigation", "{} is under investigation.", "{} is not under investigation."),
    ("Supported in the new version", "{} is supported in the new version.", "{} is not supported in the new version."),
    ("Known problems affect", "{} is affected by known problems.", "{} is not affected by known problems."),
)
STEPS: Final = tuple(
    """switch off the power|open the cover|remove the filter|rinse the filter|close the valve|open the valve|enter the code|
    wait for the green light|press the red button|fill the tank|check the oil|tighten the screws|call the front desk|sign the form|
    send the form to finance|attach the receipt|choose a date|confirm the booking|pay the deposit|collect the keys|
    read the meter|write down the number|lock the door|export the data|stop the service|make a backup|install the update|
    start the service|check the log|tell the users|preheat the oven|mix the flour and the salt|add the water|knead the dough""".replace(
        "\n    ", ""
    ).split("|")
)
