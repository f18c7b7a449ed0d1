"""Text that is safe to print."""


def printable(text: str) -> str:
    """Return text without the characters that would speak to a terminal, or that it cannot show."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in text)
