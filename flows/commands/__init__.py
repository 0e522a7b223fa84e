"""The `dreamer` command: `parser` knows the subcommands, `cli` runs one; they lie in rooms by what
they are about.

May import everything in `flows`; imported by nothing."""
