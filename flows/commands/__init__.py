"""The `dreamer` command: the parser in `cli`, each subcommand in a module of its own or beside its closest relative.

May import everything in `flows`; imported by nothing."""
