"""The built-in world: a seeded generator of arithmetic stories, with benchmarks and planted faults of known truth.

May import `pipeline.tokens.tokenizer` (for the form of prompts), `pipeline.errors` and `pipeline.progress`.
"""
