"""The built-in world: a seeded generator of small problems, with benchmarks and planted faults of
known truth.

May import `pipeline.tokens.tokenizer` (for the form of prompts), `pipeline.storage.parallel` and
`pipeline.errors`."""
