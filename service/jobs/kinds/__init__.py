"""What a job can be; each kind is one module with the work that it does in a worker process."""
