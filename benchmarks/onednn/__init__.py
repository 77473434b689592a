"""The target onednn beside its peers: two cores, many, and blocks alone."""
