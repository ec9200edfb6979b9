"""Whether to trust a posterior: checks, the verdict in words, and what the data did for each number."""
