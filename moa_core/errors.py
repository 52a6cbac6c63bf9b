"""The one exception that means: a person asked for something that cannot be done."""


class UserError(ValueError):
    """A mistake of the person's, said in one sentence that tells what to change."""
