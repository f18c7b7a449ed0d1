"""The type of lists of arguments that campaign files hand to programs."""

from typing import Annotated

from pydantic import WithJsonSchema

# In a file they may be numbers, which the program gets as they are written.
Arguments = list[Annotated[str, WithJsonSchema({"type": ["string", "number"]})]]
