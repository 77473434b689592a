"""What a sweep leaves: a folder with a Parquet dataset, a row a job, and what it says as a whole."""
