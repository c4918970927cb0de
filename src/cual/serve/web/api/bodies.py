"""What a request for predictions may hold, for OpenAPI. How it is read is in `features` and `raw`."""

from typing import Any

from cual.serve.web.api.raw import FORM, PICTURES, PLAIN

_BINARY = {"type": "string", "format": "binary"}
_FEATURES = {
    "type": "object",
    "required": ["features"],
    "additionalProperties": False,
    "properties": {
        "features": {"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "number"}}}
    },
}
_TEXTS = {
    "type": "object",
    "required": ["texts"],
    "additionalProperties": False,
    "properties": {"texts": {"type": "array", "minItems": 1, "items": {"type": "string"}}},
}
_FILES = {
    "type": "object",
    "required": ["files"],
    "properties": {"files": {"type": "array", "items": _BINARY, "description": "JPEG, PNG or WebP, in order."}},
}
SAMPLES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"oneOf": [_FEATURES, _TEXTS]}},
            "application/x-npy": {"schema": _BINARY},
            **{kind: {"schema": _BINARY} for kind in PICTURES},
            FORM: {"schema": _FILES},
            PLAIN: {"schema": {"type": "string", "minLength": 1}},
        },
    }
}
