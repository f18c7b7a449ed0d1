"""Define `UserError`, for mistakes of the user, and suggest similar names."""

from collections.abc import Iterable
from difflib import get_close_matches

from orchestrator.common.text import shortened

MAX_LISTED = 20


class UserError(Exception):
    """One or more mistakes of the user, each a sentence: where, what is wrong, what to try.

    If no other code handles the error, the command line prints the sentences and exits with 1. In a
    sentence, very long words are shortened to their start and end.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(shortened(problem) for problem in problems)
        super().__init__("\n".join(self.problems))


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return a hint to add to a message about the unknown name `word`, e.g. `; did you mean 'x'?`.

    The hint contains the most similar of `names`; a name that differs only in upper and lower
    case is preferred. If no name is similar, the hint lists all names: `; choose one of a, b`.
    If that list would be empty or longer than `MAX_LISTED` names, the hint is an empty text.
    """
    choices = sorted(names)
    near = [choice for choice in choices if choice.casefold() == word.casefold()]
    near += get_close_matches(word, choices, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; choose one of {', '.join(choices)}" if 0 < len(choices) <= MAX_LISTED else ""
