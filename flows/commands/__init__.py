"""The `dreamer` command, one file per subcommand."""
