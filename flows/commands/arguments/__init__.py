"""The options of each command, a module for each group; they import nothing of the commands."""
