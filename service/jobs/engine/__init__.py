"""The processes of one machine that run jobs: their supervisor, and the workers that it forks."""
