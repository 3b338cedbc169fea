"""The OpenAPI schema as it is published: what describes one side of a choice describes the field."""

from typing import Any


def lift_descriptions(schema: Any) -> Any:
    """The schema, where a field that may be null has the description of what it is otherwise."""
    if isinstance(schema, list):
        return [lift_descriptions(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: lift_descriptions(each) for name, each in schema.items()}
    sides = made.get("anyOf")
    if isinstance(sides, list) and "description" not in made:
        told = [each["description"] for each in sides if isinstance(each, dict) and "description" in each]
        if len(told) == 1:
            made["description"] = told[0]
    return made
