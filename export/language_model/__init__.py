"""Language models: a decoder with its cache becomes an artifact with the methods `prefill` and `decode`."""
