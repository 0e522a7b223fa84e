"""Where trainings and evaluations run: the GPUs and cores of this machine, several machines (nodes), jobs of SLURM.

May import `flows.study`, and of `flows.running` processes, progress and private folders."""
