"""What MIGraphX takes: operators, dtypes, and which arguments must be constants. A table with the version it is of.

Source: "Supported ONNX Operators" of ROCm/AMDMIGraphX at commit fbf2296bcfbd (opset 19), and the rules by which the
execution provider itself leaves nodes out. From ROCm 7.2 on the provider asks the installed MIGraphX for its operators,
so a newer one may take more; what this table refuses can be left to the CPU with `--option allow_fallback=true`.
"""

from __future__ import annotations

from collections.abc import Mapping

TABLE_VERSION = "ROCm/AMDMIGraphX fbf2296bcfbd, opset 19"
OLDEST_OPSET = 18
NEWEST_OPSET = 19

OPERATORS = frozenset(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast CastLike Ceil Celu
    Clip Concat Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear
    Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements
    GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GroupNormalization
    HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu
    Less LessOrEqual Log LogSoftmax Loop LpNormalization LpPool MatMul MatMulInteger Max MaxPool Mean
    MeanVarianceNormalization Min Mod Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pad Pow
    QLinearAdd QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu QLinearMatMul
    QLinearMul QLinearSigmoid QuantizeLinear RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round Scatter ScatterElements ScatterND Selu Shape
    Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh
    ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
    """.split()  # noqa: SIM905
)

# Names of onnx_ir.DataType.
DTYPES = frozenset(
    {
        *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
        *("FLOAT8E4M3FNUZ", "FLOAT16", "FLOAT", "DOUBLE"),
    }
)

# Operator -> inputs, by position, that must be known when the graph is compiled.
CONSTANT_INPUTS: Mapping[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "ReverseSequence": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}

# (operator, attribute) -> the only values that are taken.
ATTRIBUTE_VALUES: Mapping[tuple[str, str], tuple[object, ...]] = {
    ("ArgMax", "select_last_index"): (0,),
    ("ArgMin", "select_last_index"): (0,),
    ("MaxPool", "storage_order"): (0,),
    ("Pad", "mode"): ("constant", "reflect", "edge"),
    ("Reshape", "allowzero"): (0,),
    ("Resize", "mode"): ("nearest", "linear"),
    ("Resize", "antialias"): (0,),
    ("Resize", "exclude_outside"): (0,),
    ("Resize", "coordinate_transformation_mode"): (
        *("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"),
    ),
    ("TopK", "sorted"): (1,),
    ("Unique", "axis"): (0,),
}

# Operators whose result has a size that only the data decides.
DATA_SIZED = frozenset({"NonZero", "NonMaxSuppression", "Unique", "Compress"})
