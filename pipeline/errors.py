"""The exception for bad input: the command prints its text as one line and exits with status 2."""


class InputError(ValueError):
    """Bad input; the text is one line that tells what is wrong, where, and what to do."""
