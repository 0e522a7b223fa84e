"""Where trainings and evaluations run: the GPUs and cores of this machine, and processes that stay.

May import `flows.study`, and of `flows.running` processes, progress and private folders."""
