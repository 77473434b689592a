"""The rewrites that every ONNX Runtime target asks for."""

from __future__ import annotations

# Attention without a key, operators without a translation or a kernel, and those whose translation is not PyTorch's.
ONNX_REWRITES = (
    *(
        "return_writes",
        "fill_memory",
        "join_steps",
        "join_writes",
        "search_by_comparisons",
        "write_experts",
        "write_flex_attention",
        "split_complex",
    ),
    *("keep_planes", "suppress_neighbours", "write_regions", "write_max_places", "widen_small_integers"),
    "write_promotions",
    *(
        "join_ranks",
        "guard_empty_rows",
        "sort_by_topk",
        "scatter_by_sums",
        # Sums of rows lose some of those that several threads add to one place.
        "choose_rows",
        "add_elements",
        "slice_diagonals",
        "name_dimensions",
        "write_max_pools",
    ),
    *(
        "expand_composites",
        "write_formulas",
        "write_masked",
        "write_average_pools",
        "write_batch_statistics",
        "split_einsum",
        "write_scans",
        "steady_logarithms",
        "write_angles",
        "write_elementary",
        "write_special_functions",
        "write_bounds",
        "open_bounds",
        "write_small_matrices",
        "write_distances",
        "fold_factories",
        "choose_truths",
        "index_by_masks",
    ),
)
