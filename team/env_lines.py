"""Where a setting is in a file like .env."""

from dotenv.parser import Original


def line_of(original: Original) -> int:
    """The line of a binding; python-dotenv counts from the blank lines before it."""
    blank = original.string[: len(original.string) - len(original.string.lstrip())]
    return original.line + blank.count("\n")
