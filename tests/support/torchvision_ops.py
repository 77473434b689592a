"""Torchvision's operators in plain loops: its compiled part exists for builds of torch that these tests do not have."""

from __future__ import annotations

import math

import torch

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
}
_KEPT = torch.library.Library("torchvision", "FRAGMENT")


def nms(boxes, scores, most):
    kept = []
    for at in scores.argsort(stable=True, descending=True).tolist():
        if all(_overlap(boxes[at].tolist(), boxes[other].tolist()) <= most for other in kept):
            kept.append(at)
    return torch.tensor(kept, dtype=torch.int64)


def _overlap(one, other):
    width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return width * height / (sum(areas) - width * height)


def _at(image, y, x):
    """A bilinear sample of `[channels, height, width]`, 0 outside."""
    top, left = math.floor(y), math.floor(x)
    found = torch.zeros(image.shape[0])
    for row, by_row in ((top, top + 1 - y), (top + 1, y - top)):
        for column, by_column in ((left, left + 1 - x), (left + 1, x - left)):
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                found = found + by_row * by_column * image[:, row, column]
    return found


def roi_align(x, rois, scale, rows, columns, samples, aligned):
    height, width = x.shape[2:]
    result = torch.zeros(len(rois), x.shape[1], rows, columns)
    for at, (image, *box) in enumerate(rois.tolist()):
        left, top, right, bottom = (side * scale - (0.5 if aligned else 0.0) for side in box)
        wide, high = right - left, bottom - top
        if not aligned:
            wide, high = max(wide, 1.0), max(high, 1.0)
        down = samples if samples > 0 else math.ceil(high / rows)
        across = samples if samples > 0 else math.ceil(wide / columns)
        for row in range(rows):
            for column in range(columns):
                total = torch.zeros(x.shape[1])
                for i in range(down):
                    for j in range(across):
                        y = top + high / rows * (row + (i + 0.5) / down)
                        z = left + wide / columns * (column + (j + 0.5) / across)
                        if -1.0 <= y <= height and -1.0 <= z <= width:
                            total += _at(x[int(image)], min(max(y, 0.0), height - 1), min(max(z, 0.0), width - 1))
                result[at, :, row, column] = total / max(down * across, 1)
    return result


def deform_conv2d(x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
    count, channels = x.shape[:2]
    outs, per_group, rows, columns = weight.shape
    high, wide = offset.shape[2:]
    result = bias.reshape(1, -1, 1, 1).expand(count, outs, high, wide).clone()
    share = channels // offset_groups
    for n in range(count):
        for y in range(high):
            for z in range(wide):
                taken = torch.zeros(channels, rows, columns)
                for group in range(offset_groups):
                    for i in range(rows):
                        for j in range(columns):
                            element = (group * rows + i) * columns + j
                            down = y * sh - ph + i * dh + offset[n, 2 * element, y, z].item()
                            across = z * sw - pw + j * dw + offset[n, 2 * element + 1, y, z].item()
                            found = _at(x[n, group * share : (group + 1) * share], down, across)
                            by = mask[n, element, y, z] if use_mask else 1.0
                            taken[group * share : (group + 1) * share, i, j] = found * by
                for group in range(groups):
                    kernels = weight[group * outs // groups : (group + 1) * outs // groups]
                    part = taken[group * per_group : (group + 1) * per_group]
                    result[n, group * outs // groups : (group + 1) * outs // groups, y, z] += (kernels * part).sum(
                        [1, 2, 3]
                    )
    return result


def _fake_nms(boxes, scores, most):
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def _fake_roi_align(x, rois, scale, rows, columns, samples, aligned):
    return x.new_empty(rois.shape[0], x.shape[1], rows, columns)


def _fake_roi_pool(x, rois, scale, rows, columns):
    return (x.new_empty(rois.shape[0], x.shape[1], rows, columns),) * 2


def _fake_deform_conv2d(x, weight, offset, *_):
    return x.new_empty(x.shape[0], weight.shape[0], *offset.shape[2:])


def roi_pool(x, rois, scale, rows, columns):
    return torch.zeros(len(rois), x.shape[1], rows, columns), torch.zeros(len(rois), x.shape[1], rows, columns)


def register():
    """Define what is not there."""
    kernels = {"nms": nms, "roi_align": roi_align, "roi_pool": roi_pool, "deform_conv2d": deform_conv2d}
    fakes = {"nms": _fake_nms, "roi_align": _fake_roi_align, "roi_pool": _fake_roi_pool}
    for name, schema in _SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            _KEPT.define(name + schema)
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"torchvision::{name}", "CPU"):
            _KEPT.impl(name, kernels[name], "CPU")
            torch.library.register_fake(f"torchvision::{name}", fakes.get(name, _fake_deform_conv2d), lib=_KEPT)
    return torch.ops.torchvision
