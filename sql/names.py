"""Names in the rows of a results file that Python uses too; the SQL of the views spells them
out."""

AVERAGE = "average"  # the task that stands for the average over the benchmarks
AT_LEAST = "at least"  # a bound: what is shown is the lowest that the true ratio may be
AT_MOST = "at most"
UNDER_WAY = ("waiting", "training", "evaluating")  # statuses of runs that have not ended
