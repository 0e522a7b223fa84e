"""Measurements that are made again and again, one command each: `python -m benchmarks.<name>`.

Each file says what it decides.

training_cpu                 training speed on one CPU thread
gpu                          steps and kernels on a GPU
gpu.memory                   memory and waits of presets, counted on a CPU
curation.deduplication       cost and merged pairs of deduplication
curation.whole               cost of a study's whole curation, by stage, here or on a cluster
truth, truth.lookalikes      planted duplicates and leaks that curation finds; real problems
intervals.coverage           how often an interval of the mean factor holds the truth, simulated
intervals.repetitions        a study with other seeds and worlds: its pooled factor and intervals
report                       time, memory and size of the report of a study of the paper's size
soak                         tiny studies whose processes are killed at random

May import every package; imported by tests alone. What was measured once has its figures in
docs/log.md.
"""
