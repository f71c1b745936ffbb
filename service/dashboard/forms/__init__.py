"""Forms: of a job, from the schema of its request; of a row to predict, from its columns."""
