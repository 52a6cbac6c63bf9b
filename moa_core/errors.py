"""The one exception that means: a person asked for something that cannot be done."""


class UserError(ValueError):
    """A mistake of the person's, said in one sentence that tells what to change."""


def first_line(error: Exception) -> str:
    """The first line of an error's text, or its kind."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
