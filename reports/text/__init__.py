"""Numbers, names, and the sentences of a report: what was found, what limits it, what the models were trained on.

`numbers` imports nothing of this project; the rest may import `reports.data`.
"""
