"""A supervisor whose workers end after a second without a job."""

from service.jobs.engine import supervisor, worker_process

if __name__ == "__main__":
    worker_process.IDLE_S = 1.0
    supervisor.main()
