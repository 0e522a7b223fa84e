"""How many training tokens does each architecture need to reach the same accuracy?

The folders `pipeline`, `model`, `flows`, `sql` and `reports` stand at the top of the repository and
are imported below this name, since bare names such as `sql` and `model` collide with other
packages.
"""

__version__ = "0.1.0"
