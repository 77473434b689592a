"""What all delegates read off a graph: values, work, provenance, decompositions."""
