"""Name the words that stand for numbers."""

_TO_TWELVE = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
CARDINALS: dict[str, int] = {
    **{word: value for value, word in enumerate(_TO_TWELVE)},
    **{"thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19},
    **{"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90},
}
NUMBER_WORDS = (
    *CARDINALS,
    *("hundred", "thousand", "million", "billion", "half", "quarter", "dozen", "once", "twice", "thrice", "double"),
    *("triple", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
)
