"""The rewrites that every ExecuTorch target asks for, since its portable kernels are what runs the rest."""

from __future__ import annotations

# Operators without a portable kernel, or with one whose numbers are not PyTorch's, and what the runtime does twice.
PORTABLE_REWRITES = (
    *("return_writes", "fill_memory", "join_steps", "join_writes", "search_by_comparisons", "write_experts"),
    *("pair_factors", "fold_dimensions"),
    *("suppress_neighbours", "write_regions", "write_max_places"),
    *(
        "sort_by_topk",
        "scatter_in_order",
        "scatter_by_sums",
        "choose_rows",
        "slice_padding",
        "widen_pools",
        "write_max_pools",
        "write_average_pools",
        "write_uneven_averages",
        "pad_ceilings",
    ),
    *(
        "write_group_norm",
        "write_batch_statistics",
        "write_vector_norms",
        "flatten_conv3d",
        "write_scans",
        "divide_as_eager",
        "write_elementary",
        "write_special_functions",
        "write_powers",
        "expand_composites",
        "drop_identities",
        "name_activations",
        "name_floats",
        "write_formulas",
        "write_masked",
        "count_through",
        "slice_apart",
        "write_mirrors",
        "write_resizes",
        "write_folds",
        "write_bounds",
        "write_small_matrices",
        "write_distances",
        "join_duplicates",
        "reduce_stacks",
    ),
)
