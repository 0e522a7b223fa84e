"""The `dreamer` command: `parser` knows the subcommands, `cli` runs one.

The subcommands lie in rooms by what they are about. They may import everything in `flows`, and
nothing imports them.
"""
