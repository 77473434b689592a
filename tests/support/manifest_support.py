"""Parts of manifests that are made by hand."""

# Of an artifact that no delegate made.
NO_DELEGATION = {
    "fraction": None,
    "work_fraction": None,
    "delegated_ops": 0,
    "total_ops": 0,
    "delegate_calls": 0,
    "fallbacks": [],
}
