"""The `dreamer` command: `parser` knows the subcommands, `cli` runs one.

Each folder holds the subcommands of one topic. They may import everything in `flows`, and
nothing imports them.
"""
