"""Names in the rows of a results file that Python uses too; the SQL of the views spells them
out."""

AVERAGE = "average"  # the task that stands for the average over the benchmarks
UNDER_WAY = ("waiting", "training", "evaluating")  # statuses of runs that have not ended
