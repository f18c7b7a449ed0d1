"""Build the JSON schema of campaign files from the types that check them."""

from typing import Any

from pydantic import TypeAdapter

from orchestrator.campaign.file import CampaignFile
from orchestrator.campaign.parameters import CommonParameters
from orchestrator.common.validation import field_types
from orchestrator.frameworks.table import FRAMEWORKS


def campaign_schema() -> dict[str, Any]:
    """Return the JSON schema by which editors complete and check the keys of a campaign file."""
    schema = TypeAdapter(CampaignFile).json_schema()
    parameters = _parameters()
    single = {"type": "object", "properties": parameters, "additionalProperties": False}
    properties = schema["properties"]
    properties["defaults"] |= single
    properties["include"]["items"] = single
    properties["matrix"] |= {
        "properties": {
            name: {"type": "array", "items": value, "minItems": 1}
            for name, value in parameters.items()
        },
        "additionalProperties": False,
    }
    properties["exclude"]["items"] = {"anyOf": [{"type": "string"}, {"type": "object"}]}
    schema["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "teralog campaign",
    }


def _parameters() -> dict[str, Any]:
    merged: dict[str, list[Any]] = {}
    for kind in (CommonParameters, *(framework.options for framework in FRAMEWORKS.values())):
        for name, annotation in field_types(kind).items():
            value = TypeAdapter(annotation).json_schema()
            kinds = merged.setdefault(name, [])
            if value not in kinds:
                kinds.append(value)
    return {
        name: kinds[0] if len(kinds) == 1 else {"anyOf": kinds} for name, kinds in merged.items()
    }
