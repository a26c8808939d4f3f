"""How a model must sample the arguments of a tool; `ai/strict_schema.py` applies it."""

from typing import Literal

from ludolf.base import Value


class StrictSampling(Value, frozen=True, tag_field="type", tag="json_schema"):
    """Enforce the schema of the arguments, if possible (`prefer`) or necessarily (`require`)."""

    strict: Literal["prefer", "require"]


class GrammarSampling(Value, frozen=True, tag_field="type", tag="grammar"):
    """Enforce a grammar on the single text argument, if the model supports it."""

    variants: dict[Literal["openai_lark", "openai_regex"], str]


Sampling = StrictSampling | GrammarSampling
PREFER_STRICT = StrictSampling(strict="prefer")
