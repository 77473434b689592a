package dev.edgex.model.tensor

/** The element types that the engines' Java classes can take and give. */
enum class DType(val label: String, val bytes: Int, val isFloat: Boolean) {
    FLOAT32("float32", 4, true),
    FLOAT64("float64", 8, true),
    FLOAT16("float16", 2, true),
    INT8("int8", 1, false),
    UINT8("uint8", 1, false),
    INT32("int32", 4, false),
    INT64("int64", 8, false),
    ;

    /** The values that an element can hold, for whole numbers. */
    val range: ClosedFloatingPointRange<Double>
        get() = when (this) {
            INT8 -> -128.0..127.0
            UINT8 -> 0.0..255.0
            INT32 -> Int.MIN_VALUE.toDouble()..Int.MAX_VALUE.toDouble()
            INT64 -> Long.MIN_VALUE.toDouble()..Long.MAX_VALUE.toDouble()
            else -> Double.NEGATIVE_INFINITY..Double.POSITIVE_INFINITY
        }
}

/** One dimension; [min] equals [max] where its size is fixed. [name] is shared by dimensions of equal size. */
data class Dim(val name: String?, val min: Int, val max: Int) {
    val isDynamic: Boolean get() = min != max

    override fun toString(): String = if (isDynamic) "$name $min..$max" else "$min"
}

/** One input or output of the model. */
data class TensorSpec(val name: String, val dtype: DType, val dims: List<Dim>) {
    val isStatic: Boolean get() = dims.none { it.isDynamic }

    override fun toString(): String = "${dtype.label}[${dims.joinToString()}]"

    /** The shape for the given sizes of dynamic dimensions; a dimension that is not named gets its smallest size. */
    fun shapeFor(sizes: Map<String, Int>): IntArray {
        val shape = IntArray(dims.size) { at -> sizes[dims[at].name] ?: dims[at].min }
        return shape.also { refusal(it)?.let { why -> throw TensorException(why) } }
    }

    /** Why a shape does not fit, or null where it does. */
    fun refusal(shape: IntArray): String? {
        if (shape.size != dims.size) return "$name needs ${dims.size} dimensions, not ${shape.size}"
        for ((at, dim) in dims.withIndex()) {
            if (shape[at] !in dim.min..dim.max) return "$name has size ${shape[at]} in dimension $at, outside $dim"
        }
        return null
    }
}

/** Number of elements; a scalar has one. */
fun elementCount(shape: IntArray): Long = shape.fold(1L) { product, size -> Math.multiplyExact(product, size.toLong()) }
