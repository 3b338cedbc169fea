"""The words that fill the slots of made sentences; forms that mean the same are separated by a bar."""

from typing import Final

FIRST_NAMES: Final = (
    "Ada", "Ahmed", "Aisha", "Alice", "Amara", "Ana", "Anders", "Anita", "Arjun", "Astrid", "Ben", "Bianca",
    "Bruno", "Carla", "Carlos", "Chen", "Clara", "Dana", "Daniel", "Deepa", "Diego", "Dmitri", "Elena", "Eli",
    "Emma", "Erik", "Esther", "Farid", "Fatima", "Felix", "Frida", "George", "Grace", "Greta", "Hana", "Hassan",
    "Helen", "Henry", "Hugo", "Ines", "Ingrid", "Isaac", "Ivan", "Jack", "Jana", "Javier", "Jin", "Joana", "John",
    "Jonas", "Julia", "Kai", "Karim", "Kate", "Kofi", "Laila", "Lars", "Laura", "Leo", "Lena", "Lin", "Lucas",
    "Luisa", "Maria", "Mark", "Marta", "Martin", "Mateo", "Maya", "Mina", "Miriam", "Nadia", "Nina", "Noah", "Nora",
    "Olga", "Omar", "Oscar", "Paula", "Pedro", "Peter", "Priya", "Rahul", "Rosa", "Ruth", "Salma", "Sam", "Sara",
    "Sven", "Tara", "Theo", "Tom", "Uma", "Vera", "Victor", "Wei", "Yara", "Yusuf", "Zoe",
)  # fmt: skip
SURNAMES: Final = (
    "Abbott", "Achebe", "Adler", "Alvarez", "Anand", "Baker", "Barros", "Becker", "Bell", "Berg", "Bianchi",
    "Bloom", "Boateng", "Carter", "Castro", "Chandra", "Cole", "Costa", "Cruz", "Dahl", "Daly", "Das", "Diaz",
    "Dubois", "Duarte", "Eriksen", "Evans", "Fischer", "Flores", "Ford", "Fox", "Garcia", "Gomez", "Grant", "Gray",
    "Green", "Haas", "Hall", "Hansen", "Harris", "Hassan", "Hill", "Holm", "Hughes", "Ito", "Jensen", "Jones",
    "Kaya", "Keller", "Khan", "Kim", "Klein", "Kovacs", "Kumar", "Lane", "Larsen", "Lee", "Lima", "Lopez", "Lowe",
    "Mace", "Malik", "Marsh", "Martins", "Mendes", "Meyer", "Moore", "Mori", "Moss", "Mwangi", "Ndlovu", "Nguyen",
    "Novak", "Okafor", "Olsen", "Ortiz", "Owens", "Park", "Patel", "Perez", "Petrov", "Pires", "Popov", "Quinn",
    "Ramos", "Rao", "Reed", "Reyes", "Rossi", "Roy", "Santos", "Sato", "Schmidt", "Shah", "Silva", "Singh", "Stone",
    "Suzuki", "Takeda", "Torres", "Varga", "Vargas", "Vogel", "Wagner", "Walsh", "Ward", "Weber", "West", "Wolf",
    "Wong", "Yilmaz", "Young", "Zhang",
)  # fmt: skip
ROLES: Final = (
    *("the landlord|the owner", "the tenant", "the buyer|the purchaser", "the seller|the vendor", "the supplier"),
    *(
        "the customer|the client",
        "the manager",
        "the site manager",
        "the head of finance|the finance director",
        "the nurse",
    ),
    *("the doctor|the physician", "the patient", "the pharmacist", "the teacher", "the principal|the head teacher"),
    *("the chair|the chairperson", "the treasurer", "the secretary", "the auditor", "the captain"),
    *("the harbour master", "the crew", "the driver", "the dispatcher", "the on-call engineer", "the duty officer"),
    *("the project lead", "the reviewer", "the author", "the editor", "the publisher", "the lessor", "the lessee"),
    *("the insurer", "the policyholder|the insured person", "the employer", "the employee", "the contractor"),
    *("the subcontractor", "the architect", "the caretaker|the janitor", "the librarian", "the borrower", "the lender"),
    *("the borough", "the applicant", "the line manager|the direct manager", "the trainee", "the mentor", "the host"),
    *("the guest", "the organiser", "the sponsor", "the operator", "the technician", "the inspector", "the licensee"),
    *("the mayor", "the council", "the ministry", "the regulator", "the referee", "the coach", "the administrator"),
)
TEAMS: Final = (
    *("the finance team|finance", "the legal team|legal", "the support team", "the platform team", "the security team"),
    *(
        "the design team",
        "the data team",
        "the sales team|sales",
        "the marketing department|marketing",
        "the works council",
    ),
    *("human resources|HR", "the facilities team|facilities", "the field team", "the night shift", "the day shift"),
    *("the audit committee", "the board|the board of directors", "the steering group", "the purchasing department"),
    *("the laboratory|the lab", "the kitchen", "the front desk|reception", "the help desk", "the warehouse"),
    *("the quality team", "the release team", "the training department", "the mobile team", "the research group"),
)
GROUPS: Final = tuple(
    "employees contractors visitors volunteers members guests students teachers nurses patients tenants drivers engineers "
    "managers trainees passengers customers suppliers participants residents reviewers administrators interns residents "
    "pupils parents cyclists owners pilots players applicants subscribers readers users operators inspectors "
    "part-time|part-timers pensioners|retirees children|kids adults|grown-ups".replace(
        "part-time|part-timers ", ""
    ).split()
)
ORGANISATIONS: Final = (
    *(
        "Norwick Ltd",
        "Halden AG",
        "Brightwater",
        "Quarry Street School",
        "Tallis & Co",
        "the Ebbin Trust",
        "Marlow Foods",
    ),
    *(
        "Kestrel Air",
        "Pinefield Hospital",
        "Vantor",
        "the Lindholm Institute",
        "Ostrava Steel",
        "Greenacre",
        "Solway Bank",
    ),
    *("Meridian Freight", "the Harrow Museum", "Copperline", "Dunmore University", "Fennel Labs", "Ridgeway Rail"),
)
PLACES: Final = (
    *(
        "Oslo",
        "Lisbon",
        "Leeds",
        "Porto",
        "Graz",
        "Dublin",
        "Turin",
        "Ghent",
        "Lyon",
        "Malmo",
        "Kyoto",
        "Quito",
        "Perth",
    ),
    *("the north hall", "the south hall", "the basement", "the ground floor", "the second floor", "the third floor"),
    *(
        "the yard",
        "the annex",
        "Room 12",
        "Room 204",
        "Building A",
        "Building C",
        "the canteen|the cafeteria",
        "the garage",
    ),
    *("the east wing", "the west wing", "the reading room", "the workshop", "the loading bay", "Dock 3", "Dock 7"),
)
PRODUCTS: Final = (
    *(
        "Falcon 2",
        "Falcon 3",
        "Terra 40",
        "Terra 60",
        "Lumen S",
        "Lumen X",
        "Nordik",
        "Nordik Plus",
        "Pico",
        "Pico Max",
    ),
    *("Strata 100", "Strata 250", "Vela", "Vela Pro", "Orbit", "Orbit Mini", "Heron", "Heron XL", "Kappa 7", "Kappa 9"),
    *("Basalt", "Cedar", "Delta One", "Delta Two", "Ember", "Flint", "Garnet", "Harbor", "Indigo", "Juniper"),
)
ITEMS: Final = (
    *(
        "the keys",
        "the contract",
        "the annual report",
        "the budget",
        "the server room",
        "the backup tapes",
        "the boiler",
    ),
    *(
        "the lift|the elevator",
        "the projector",
        "the vaccine",
        "the permit",
        "the invoice",
        "the deposit",
        "the uniform",
    ),
    *("the parking permit", "the company car", "the first aid kit", "the fire door", "the membership card", "the roof"),
    *("the garden", "the printer", "the test results", "the sample", "the archive", "the newsletter", "the website"),
    *("the database", "the laptop", "the licence|the license", "the security badge", "the swimming pool", "the menu"),
    *(
        "the timetable|the schedule",
        "the customer list",
        "the pump",
        "the generator",
        "the delivery van",
        "the heating",
    ),
)
EVENTS: Final = (
    *(
        "the annual meeting",
        "the launch",
        "the audit",
        "the inspection",
        "the training",
        "the fire drill",
        "the hearing",
    ),
    *(
        "the exam",
        "the migration",
        "the handover",
        "the opening ceremony",
        "the maintenance window",
        "the board meeting",
    ),
    *("the workshop", "the site visit", "the code freeze", "the vote", "the concert", "the summer party", "the review"),
)
