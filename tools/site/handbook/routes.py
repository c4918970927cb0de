"""The reference of HTTP routes, from the service's own description (OpenAPI)."""

from collections.abc import Iterator
from typing import Any

from handbook.service import described
from handbook.tables import NOTE, code, table

METHODS = ("get", "post", "put", "patch", "delete")


def routes() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every route."""
    description, _ = described()
    for path, held in description["paths"].items():
        for method in METHODS:
            if method in held:
                yield method.upper(), path, held[method]


def page() -> str:
    """All routes by what they are about, and the shapes of what they take and give."""
    by_tag: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for method, path, operation in routes():
        by_tag.setdefault(operation["tags"][0], []).append((method, path, operation))
    parts = [
        "# HTTP routes\n",
        NOTE,
        "What `cual serve` answers to. Programs sign in with `Authorization: Bearer TOKEN` "
        "([add people](../guides/people.md) says how to make one), browsers with a session and its CSRF token. "
        "[What is trusted](../security.md) says which role may call what, "
        "[errors](errors.md) what a refusal says. `GET /api/openapi.json` of a running service has this page "
        "as OpenAPI, for whoever is signed in.\n",
    ]
    for tag in sorted(by_tag):
        parts += [f"## {tag.capitalize()}\n"]
        for method, path, operation in by_tag[tag]:
            parts += [
                f"### `{method} {path}`\n",
                _prose(operation),
                _parameters(operation),
                _exchange(operation),
            ]
    parts += ["## Shapes\n", "Fields of JSON bodies and answers; those with a star must be there.\n"]
    description, _ = described()
    for name, schema in sorted(description["components"]["schemas"].items()):
        parts += [f"### {name}\n", _prose(schema), _fields(schema)]
    return "\n".join(part for part in parts if part)


def _prose(thing: dict[str, Any]) -> str:
    """What a route or a shape says of itself: paragraphs, and examples as code."""
    paragraphs = [p for p in (thing.get("description") or "").strip().split("\n\n") if p]
    shown = [f"```pycon\n{p}\n```" if p.startswith(">>> ") else p.replace("<", "&lt;") for p in paragraphs]
    return "\n\n".join(shown) + "\n" if shown else ""


def _parameters(operation: dict[str, Any]) -> str:
    rows = (
        [code(p["name"]), p["in"], _type(p["schema"]), _default(p["schema"]), p.get("description", "")]
        for p in operation.get("parameters", [])
        if p["in"] != "cookie"
    )
    return table(["parameter", "in", "type", "default", "is"], rows)


def _exchange(operation: dict[str, Any]) -> str:
    lines = []
    if body := operation.get("requestBody"):
        lines.append(f"Takes {_contents(body['content'])}.")
    for status, answer in operation["responses"].items():
        if status < "300":
            given = _contents(answer["content"]) if answer.get("content") else "nothing"
            lines.append(f"Answers {status} with {given}.")
    refusals = sorted(status for status in operation["responses"] if status >= "400")
    if refusals:
        lines.append(f"Refuses with {', '.join(refusals)}.")
    return " ".join(lines) + "\n"


def _contents(content: dict[str, Any]) -> str:
    said = []
    for kind, held in content.items():
        shape = _type(held.get("schema", {}))
        said.append(f"{shape} (`{kind}`)" if shape and shape != "any" else f"`{kind}`")
    return " or ".join(said)


def _fields(schema: dict[str, Any]) -> str:
    required = set(schema.get("required", []))
    rows = (
        [
            code(name) + (" *" if name in required else ""),
            _type(field),
            _default(field),
            field.get("description", ""),
        ]
        for name, field in schema.get("properties", {}).items()
    )
    listed = table(["field", "type", "default", "is"], rows)
    return listed or f"{_type(schema)}\n"


def _default(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None else code(default)


def _type(schema: dict[str, Any]) -> str:
    """
    >>> _type({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]})
    'integer ≥ 1 or null'
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(map(code, schema["enum"]))
    if "const" in schema:
        return code(schema["const"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("format") in ("binary", "date-time", "date"):
        return schema["format"]
    if schema.get("contentMediaType"):
        return "binary"
    if kind == "object" and schema.get("properties"):
        return f"form with {', '.join(map(code, schema['properties']))}"
    limits = [f"{sign} {schema[key]}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return " ".join([kind, *(limit for limit in limits if limit != "≤ 2147483647")])
