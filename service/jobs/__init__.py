"""Work in the background: what all jobs share, and a room for each kind of job."""
