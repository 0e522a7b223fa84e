"""Benchmark items to look for in documents."""

import pyarrow as pa

CLIPS = (
    "Natalia sold clips to 48 of her friends in April, and then she sold 24 more of them in May. How many clips did "
    "Natalia sell altogether in April and May?"
)
SHORT = "What is 17 + 25?"
PROSE = (
    "Weng earns 12 dollars in every hour that she spends with the children of her neighbours, so fifty minutes give "
    "her ten dollars, which she puts aside for the summer."
)
WORDS = [
    a + b + c for a in ("ba", "ke", "lo", "mi") for b in ("ra", "to", "nu") for c in ("s", "d", "x")
]
PARTS = [
    CLIPS,
    SHORT,
    *CLIPS.split(". "),
    CLIPS.replace("48", "36"),
    CLIPS.replace("friends", "naïve friends"),
    "Well,",
]


def item_table(items: list[tuple[str, str]], benchmark: str = "clips") -> pa.Table:
    return pa.table(
        {
            "id": [f"{benchmark}/{i}" for i in range(len(items))],
            "benchmark": [benchmark] * len(items),
            "question": pa.array([question for question, _ in items], pa.string()),
            "answer": pa.array([answer for _, answer in items], pa.string()),
        }
    )
