"""The functions and classes of `import dreamer_study`, which do what the command does.

Nothing here prints to standard output. Bad input raises `InputError`.
"""
