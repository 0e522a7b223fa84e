"""The functions and classes of `import dreamer_study`, over what the command does too.

Nothing here prints to standard output, and bad input is an `InputError`.
"""
