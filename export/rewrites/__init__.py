"""Graph rewrites, one pass a file; each keeps the numbers and says what it changed.

Some are for every target, some for the targets whose delegate asks for them by name (`ChoosesRewrites`): what removes
slow operators from one target is a slower program on another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from edgex.delegates.base import CapturedProgram, ChoosesRewrites
from edgex.export.rewrites.base import Rewrite

__all__ = ["Rewrite", "apply_rewrites", "passes_of", "wanted_rewrites"]

Pass = Callable[[CapturedProgram], tuple[CapturedProgram, Rewrite | None]]


def wanted_rewrites(delegate: object) -> tuple[str, ...]:
    """Names of the passes that a delegate asks for.

    Raises:
        AssertionError: There is no such pass.
    """
    names = delegate.rewrites if isinstance(delegate, ChoosesRewrites) else ()
    known = {name for name, on_request, _ in _passes() if on_request}
    assert known.issuperset(names), f"unknown rewrites {sorted(set(names) - known)}; known: {sorted(known)}"
    return names


def passes_of(wanted: Collection[str]) -> tuple[Pass, ...]:
    """The passes for every target and those asked for, in order."""
    return tuple(run for name, on_request, run in _passes() if not on_request or name in wanted)


def apply_rewrites(
    program: CapturedProgram, wanted: Collection[str] = (), without: Collection[str] = (), *, common: bool = True
) -> tuple[CapturedProgram, tuple[Rewrite, ...]]:
    """Run every pass in order.

    Args:
        program: What capture made; it is not changed.
        wanted: Passes that run on request, by name.
        without: Passes to leave out, by name.
        common: Run those for every target too; False where they have run, for several targets at once.

    Returns:
        The rewritten program (the same object where nothing matched), and what the passes that changed something did.
    """
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    rewrites: list[Rewrite] = []
    for name, on_request, run in _passes():
        if name in without or (name not in wanted if on_request else not common):
            continue
        try:
            program, rewrite = run(program)
        except GuardOnDataDependentSymNode:
            # It compares with a size that only the run knows: what it would write is right for some sizes alone. The
            # program is as it was, since a pass changes a copy.
            continue
        if rewrite is not None:
            rewrites.append(rewrite)
    return program, tuple(rewrites)


def _passes() -> tuple[tuple[str, bool, Pass], ...]:
    """Name, whether it runs on request only, and the pass, in order; torch is imported here, not with the package."""
    from edgex.export.rewrites.activations.by_hand import name_activations
    from edgex.export.rewrites.activations.choices import bound_by_masks
    from edgex.export.rewrites.activations.ranks import rank_by_comparisons
    from edgex.export.rewrites.activations.selections import select_by_comparisons, select_by_masks
    from edgex.export.rewrites.activations.simpler import write_activations, write_gelu
    from edgex.export.rewrites.activations.steps import step_truths
    from edgex.export.rewrites.attention.cached import write_cached_attention, write_cached_attention_int8
    from edgex.export.rewrites.attention.empty_rows import guard_empty_rows
    from edgex.export.rewrites.attention.flexible import write_flex_attention
    from edgex.export.rewrites.attention.masks import write_masks
    from edgex.export.rewrites.attention.products import unfold_attention
    from edgex.export.rewrites.attention.ranks import join_ranks
    from edgex.export.rewrites.attention.windows import write_windows
    from edgex.export.rewrites.complex.numbers import split_complex
    from edgex.export.rewrites.complex.planes import keep_planes
    from edgex.export.rewrites.composites import expand_composites
    from edgex.export.rewrites.detection.regions import write_regions
    from edgex.export.rewrites.detection.suppression import suppress_neighbours
    from edgex.export.rewrites.folding.constants import fold_constants
    from edgex.export.rewrites.folding.dimensions import fold_dimensions
    from edgex.export.rewrites.folding.duplicates import join_duplicates
    from edgex.export.rewrites.folding.literals import fold_factories, fold_literals, fold_lookups, fold_tables
    from edgex.export.rewrites.folding.permutes import split_permutes
    from edgex.export.rewrites.images.lines import widen_convolutions
    from edgex.export.rewrites.images.narrow import lay_flat
    from edgex.export.rewrites.images.rows import resize_by_rows
    from edgex.export.rewrites.images.unbatched import pool_as_batches
    from edgex.export.rewrites.indexing.diagonal import slice_diagonals
    from edgex.export.rewrites.indexing.joins import join_steps, join_writes
    from edgex.export.rewrites.indexing.mirrors import write_mirrors
    from edgex.export.rewrites.indexing.padding import slice_padding
    from edgex.export.rewrites.indexing.pieces import slice_pieces
    from edgex.export.rewrites.indexing.pixels import permute_pixels
    from edgex.export.rewrites.indexing.reductions import name_dimensions
    from edgex.export.rewrites.indexing.rolling import slice_apart
    from edgex.export.rewrites.indexing.searching import search_by_comparisons
    from edgex.export.rewrites.indexing.sorting import sort_by_topk
    from edgex.export.rewrites.indexing.writes import fill_memory, return_writes
    from edgex.export.rewrites.matrices.interleaved import interleave_by_transposing
    from edgex.export.rewrites.matrices.pairs import pair_factors
    from edgex.export.rewrites.matrices.shared import share_factors, share_weights
    from edgex.export.rewrites.matrices.small import write_small_matrices
    from edgex.export.rewrites.norms.batch_norm import fold_batch_norm
    from edgex.export.rewrites.norms.batch_statistics import write_batch_statistics, write_vector_norms
    from edgex.export.rewrites.norms.flat_softmax import flatten_softmax
    from edgex.export.rewrites.norms.group_norm import write_group_norm
    from edgex.export.rewrites.norms.layer_norm import write_layer_norms
    from edgex.export.rewrites.norms.lengths import bound_lengths
    from edgex.export.rewrites.norms.plane_norms import write_plane_norms
    from edgex.export.rewrites.norms.softmax import move_softmax, part_softmax, reduce_softmax
    from edgex.export.rewrites.numbers.conversions import convert_by_joining
    from edgex.export.rewrites.numbers.early import convert_early
    from edgex.export.rewrites.numbers.promotions import write_promotions
    from edgex.export.rewrites.numbers.scalars import name_floats, split_alpha
    from edgex.export.rewrites.numbers.small_integers import widen_small_integers
    from edgex.export.rewrites.operators.arctangent import write_angles
    from edgex.export.rewrites.operators.divisions import divide_as_eager
    from edgex.export.rewrites.operators.elementary import write_elementary
    from edgex.export.rewrites.operators.formulas import write_formulas
    from edgex.export.rewrites.operators.identities import drop_identities
    from edgex.export.rewrites.operators.logarithms import steady_logarithms
    from edgex.export.rewrites.operators.portable_functions import spare_portable_functions
    from edgex.export.rewrites.operators.powers import write_powers
    from edgex.export.rewrites.operators.scans import write_scans
    from edgex.export.rewrites.operators.special_functions import write_special_functions
    from edgex.export.rewrites.operators.statistics import write_statistics, write_variances
    from edgex.export.rewrites.pooling.average import pad_averages, write_average_pools
    from edgex.export.rewrites.pooling.ceilings import pad_ceilings
    from edgex.export.rewrites.pooling.extremes import pool_extremes
    from edgex.export.rewrites.pooling.folds import write_folds
    from edgex.export.rewrites.pooling.maximum import write_max_pools
    from edgex.export.rewrites.pooling.parts import multiply_parts, reduce_planes, reduce_stacks
    from edgex.export.rewrites.pooling.places import write_max_places
    from edgex.export.rewrites.pooling.planes import write_plane_means
    from edgex.export.rewrites.pooling.sequences import widen_pools
    from edgex.export.rewrites.pooling.uneven import write_uneven_averages
    from edgex.export.rewrites.products.batches import write_batches
    from edgex.export.rewrites.products.conv3d import flatten_conv3d
    from edgex.export.rewrites.products.depthwise import split_depthwise
    from edgex.export.rewrites.products.distances import write_distances
    from edgex.export.rewrites.products.einsum import permute_einsum, split_einsum
    from edgex.export.rewrites.products.experts import write_experts
    from edgex.export.rewrites.products.nearest import repeat_by_products, repeat_pixels
    from edgex.export.rewrites.products.phases import write_dense_phases, write_phases
    from edgex.export.rewrites.products.resizes import write_corners, write_cubics, write_resizes
    from edgex.export.rewrites.products.sampling import gather_samples
    from edgex.export.rewrites.recurrences.layers import loop_recurrences, write_recurrences
    from edgex.export.rewrites.reductions.channel_means import write_channel_means
    from edgex.export.rewrites.reductions.extreme_indices import weigh_extremes
    from edgex.export.rewrites.reductions.image_means import average_in_steps
    from edgex.export.rewrites.reductions.large_norms import write_large_norms
    from edgex.export.rewrites.reductions.large_sums import write_large_sums
    from edgex.export.rewrites.reductions.leading import halve_extremes, multiply_sums
    from edgex.export.rewrites.reductions.row_extremes import write_row_extremes
    from edgex.export.rewrites.reductions.row_means import write_row_means
    from edgex.export.rewrites.regions import inline_regions
    from edgex.export.rewrites.scattering.chosen import count_through, index_by_masks
    from edgex.export.rewrites.scattering.in_order import scatter_in_order
    from edgex.export.rewrites.scattering.known_rows import add_known_rows
    from edgex.export.rewrites.scattering.masked import write_masked
    from edgex.export.rewrites.scattering.rows import add_elements, add_rows, choose_rows
    from edgex.export.rewrites.scattering.sums import scatter_by_sums, scatter_extremes
    from edgex.export.rewrites.scattering.truths import choose_truths
    from edgex.export.rewrites.strided import read_strided
    from edgex.export.rewrites.weights.blocks import block_signals
    from edgex.export.rewrites.weights.bounds import open_bounds, write_bounds
    from edgex.export.rewrites.weights.branches import join_branches
    from edgex.export.rewrites.weights.computed import multiply_windows
    from edgex.export.rewrites.weights.crops import crop_transposed
    from edgex.export.rewrites.weights.dilation import fill_dilation
    from edgex.export.rewrites.weights.order import order_weights
    from edgex.export.rewrites.weights.returned import copy_returned_constants
    from edgex.export.rewrites.weights.spans import write_spans
    from edgex.export.rewrites.weights.sums import split_sums
    from edgex.export.rewrites.weights.turned import turn_weights

    # Those for every target before those on request: `common` relies on it.
    return (
        # First: operators inside a region are invisible to the passes below.
        ("inline_regions", False, inline_regions),
        # Before anything lies in another order than in eager.
        ("read_strided", False, read_strided),
        ("permute_einsum", False, permute_einsum),
        # Then: weight_norm's computed weight becomes a constant, which folding batch norm into it needs. The other
        # way round nothing would be found, and batch norm leaves no new subgraph of weights behind.
        ("fold_constants", False, fold_constants),
        ("fold_batch_norm", False, fold_batch_norm),
        # Behind the norms of each branch.
        ("join_branches", False, join_branches),
        # Before all that looks at attention.
        ("write_flex_attention", True, write_flex_attention),
        # Before what takes attention and its mask apart.
        ("write_cached_attention", True, write_cached_attention),
        ("write_cached_attention_int8", True, write_cached_attention_int8),
        # Before the rest, which leaves alone what is written to later.
        ("return_writes", True, return_writes),
        ("fill_memory", True, fill_memory),
        ("join_steps", True, join_steps),
        ("join_writes", True, join_writes),
        # Angles that forward makes are literals only when they are real.
        ("split_complex", True, split_complex),
        # Behind complex numbers, whose parts are stacked where they are read as real ones.
        ("keep_planes", True, keep_planes),
        ("expand_composites", True, expand_composites),
        ("drop_identities", True, drop_identities),
        ("name_activations", True, name_activations),
        # Ahead of all that looks at convolutions and pools.
        ("lay_flat", True, lay_flat),
        # Before scattering and logarithms, of which some of its formulas are made.
        ("write_formulas", True, write_formulas),
        # Ahead of sorting, of which suppression is made.
        ("suppress_neighbours", True, suppress_neighbours),
        ("write_regions", True, write_regions),
        # Operators in terms of others. `fold_literals` comes after them: they make positions and counts.
        ("pool_as_batches", True, pool_as_batches),
        ("order_weights", True, order_weights),
        ("turn_weights", True, turn_weights),
        ("pair_factors", True, pair_factors),
        # Behind `turn_weights`, which needs no other order of the result.
        ("share_factors", True, share_factors),
        ("share_weights", True, share_weights),
        ("copy_returned_constants", True, copy_returned_constants),
        ("sort_by_topk", True, sort_by_topk),
        # Behind what makes top-k of medians, ahead of what makes slices of windows.
        ("rank_by_comparisons", True, rank_by_comparisons),
        ("write_masked", True, write_masked),
        # Behind assignments, which need no places.
        ("count_through", True, count_through),
        ("index_by_masks", True, index_by_masks),
        ("scatter_in_order", True, scatter_in_order),
        ("scatter_by_sums", True, scatter_by_sums),
        # ONNX Runtime has a kernel for them, which is quicker.
        ("scatter_extremes", True, scatter_extremes),
        # Behind what makes numbers of masks, and sums of maxima.
        ("choose_rows", True, choose_rows),
        ("add_known_rows", True, add_known_rows),
        ("add_rows", True, add_rows),
        ("add_elements", True, add_elements),
        ("search_by_comparisons", True, search_by_comparisons),
        ("loop_recurrences", True, loop_recurrences),
        # What is left: few steps, and weights that are computed.
        ("write_recurrences", True, write_recurrences),
        ("write_distances", True, write_distances),
        ("fold_factories", True, fold_factories),
        ("slice_diagonals", True, slice_diagonals),
        # Ahead of the windows that it is made of.
        ("multiply_windows", True, multiply_windows),
        ("write_folds", True, write_folds),
        ("slice_padding", True, slice_padding),
        ("write_mirrors", True, write_mirrors),
        ("slice_apart", True, slice_apart),
        ("name_dimensions", True, name_dimensions),
        # Behind sums of Einstein, ahead of what looks at the dimensions of norms and reductions.
        ("fold_dimensions", True, fold_dimensions),
        # Ahead of all that is written of poolings of images.
        ("widen_pools", True, widen_pools),
        ("write_max_places", True, write_max_places),
        ("write_max_pools", True, write_max_pools),
        ("write_average_pools", True, write_average_pools),
        ("write_uneven_averages", True, write_uneven_averages),
        ("pad_ceilings", True, pad_ceilings),
        ("pad_averages", True, pad_averages),
        ("write_batch_statistics", True, write_batch_statistics),
        ("write_vector_norms", True, write_vector_norms),
        ("write_plane_norms", True, write_plane_norms),
        ("write_group_norm", True, write_group_norm),
        # Behind the norms that become layer norms.
        ("write_layer_norms", True, write_layer_norms),
        ("part_softmax", True, part_softmax),
        ("reduce_softmax", True, reduce_softmax),
        ("move_softmax", True, move_softmax),
        ("flatten_softmax", True, flatten_softmax),
        ("write_large_norms", True, write_large_norms),
        # Ahead of the shuffles that they become.
        ("write_phases", True, write_phases),
        ("write_dense_phases", True, write_dense_phases),
        ("block_signals", True, block_signals),
        ("write_spans", True, write_spans),
        ("permute_pixels", True, permute_pixels),
        ("flatten_conv3d", True, flatten_conv3d),
        ("widen_convolutions", True, widen_convolutions),
        ("fill_dilation", True, fill_dilation),
        ("crop_transposed", True, crop_transposed),
        ("split_depthwise", True, split_depthwise),
        # Ahead of divisions, logarithms and angles.
        ("write_promotions", True, write_promotions),
        # Behind the conversions that promotions are.
        ("convert_early", True, convert_early),
        ("split_einsum", True, split_einsum),
        ("write_experts", True, write_experts),
        ("gather_samples", True, gather_samples),
        ("repeat_pixels", True, repeat_pixels),
        ("repeat_by_products", True, repeat_by_products),
        ("write_resizes", True, write_resizes),
        # What is too large for products.
        ("resize_by_rows", True, resize_by_rows),
        ("write_corners", True, write_corners),
        ("write_cubics", True, write_cubics),
        ("write_gelu", True, write_gelu),
        ("write_activations", True, write_activations),
        ("write_statistics", True, write_statistics),
        ("write_variances", True, write_variances),
        ("write_scans", True, write_scans),
        ("write_special_functions", True, write_special_functions),
        ("steady_logarithms", True, steady_logarithms),
        ("divide_as_eager", True, divide_as_eager),
        ("write_angles", True, write_angles),
        # Ahead of powers, which take norms apart.
        ("bound_lengths", True, bound_lengths),
        ("write_powers", True, write_powers),
        # Ahead of all that looks at reductions.
        ("reduce_stacks", True, reduce_stacks),
        ("multiply_parts", True, multiply_parts),
        # Behind variances, which become means, and norms, which become sums.
        ("average_in_steps", True, average_in_steps),
        ("write_large_sums", True, write_large_sums),
        ("write_channel_means", True, write_channel_means),
        ("write_plane_means", True, write_plane_means),
        ("write_row_means", True, write_row_means),
        # Ahead of the maxima that they are made of.
        ("weigh_extremes", True, weigh_extremes),
        # Behind what is quicker for the channels of images.
        ("reduce_planes", True, reduce_planes),
        ("multiply_sums", True, multiply_sums),
        ("write_row_extremes", True, write_row_extremes),
        ("halve_extremes", True, halve_extremes),
        ("pool_extremes", True, pool_extremes),
        # Behind means over channels: its sums are over rows of a matrix, of which a convolution is no quicker.
        ("write_small_matrices", True, write_small_matrices),
        # Ahead of what turns logic and conversions into others.
        ("step_truths", True, step_truths),
        ("select_by_comparisons", True, select_by_comparisons),
        ("write_elementary", True, write_elementary),
        # Behind all that makes roots, logarithms and exponentials.
        ("spare_portable_functions", True, spare_portable_functions),
        ("join_ranks", True, join_ranks),
        # Masks become constants, which attention looks at.
        ("choose_truths", True, choose_truths),
        # Ahead of literals, which are constants of any size then.
        ("fold_tables", True, fold_tables),
        ("fold_literals", True, fold_literals),
        # Behind places that are literals only now.
        ("fold_lookups", True, fold_lookups),
        ("write_bounds", True, write_bounds),
        ("open_bounds", True, open_bounds),
        ("guard_empty_rows", True, guard_empty_rows),
        ("write_masks", True, write_masks),
        ("write_windows", True, write_windows),
        ("unfold_attention", True, unfold_attention),
        # Behind attention, which has masks of its own.
        ("select_by_masks", True, select_by_masks),
        ("bound_by_masks", True, bound_by_masks),
        # Behind all that makes conversions, and what would make a constant of its zero.
        ("convert_by_joining", True, convert_by_joining),
        # Ahead of what looks at the users of a value, behind what takes composites and attention apart.
        ("join_duplicates", True, join_duplicates),
        ("interleave_by_transposing", True, interleave_by_transposing),
        ("slice_pieces", True, slice_pieces),
        ("write_batches", True, write_batches),
        # Behind all that makes convolutions and linear layers.
        ("split_sums", True, split_sums),
        # Behind all that makes permutes, or looks at them.
        ("split_permutes", True, split_permutes),
        ("widen_small_integers", True, widen_small_integers),
        ("split_alpha", True, split_alpha),
        ("name_floats", True, name_floats),
    )
