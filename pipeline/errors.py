"""The one exception for what a user can put right: the command prints its text as one line and exits with status 2."""


class InputError(ValueError):
    """Bad input. The text is one line: what is wrong, where it is, what to do about it."""
