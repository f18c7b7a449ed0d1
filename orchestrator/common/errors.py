"""Define `UserError`, for mistakes of the user, and suggest the names that were meant."""

from collections.abc import Iterable
from difflib import get_close_matches

from orchestrator.common.text import shortened

MAX_LISTED = 20


class UserError(Exception):
    """One or more mistakes of the user's, each a sentence that says where, what, and what to try.

    The command line prints the sentences and exits with 1; nothing else catches it. Of a value that
    is very long they hold the ends.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(shortened(problem) for problem in problems)
        super().__init__("\n".join(self.problems))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known word nearest to `word`, or a short list of all.

    The nearest is the one that differs in its case alone, where there is one.
    """
    choices = sorted(known)
    near = [choice for choice in choices if choice.casefold() == word.casefold()]
    near += get_close_matches(word, choices, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; choose one of {', '.join(choices)}" if 0 < len(choices) <= MAX_LISTED else ""
