package dev.edgex.model.tensor

/*
 * Tensors from Kotlin's arrays and back, in C order: what the generated classes are made of. The sizes of dynamic dimensions
 * go by name; what does not fit is refused with the name of the tensor.
 */

fun TensorSpec.tensorOf(values: FloatArray, sizes: Map<String, Int> = emptyMap()): TensorData = filled(values.size, sizes) { tensor ->
    when (dtype) {
        DType.FLOAT32 -> tensor.bytes.asFloatBuffer().put(values)
        DType.FLOAT16 -> values.forEachIndexed { at, value -> tensor[at] = value.toDouble() }
        else -> refuse("floats")
    }
}

fun TensorSpec.tensorOf(values: DoubleArray, sizes: Map<String, Int> = emptyMap()): TensorData = filled(values.size, sizes) { tensor ->
    if (dtype == DType.FLOAT64) tensor.bytes.asDoubleBuffer().put(values) else refuse("doubles")
}

/** For uint8 the bytes are what they are without a sign. */
fun TensorSpec.tensorOf(values: ByteArray, sizes: Map<String, Int> = emptyMap()): TensorData = filled(values.size, sizes) { tensor ->
    if (dtype.bytes == 1) tensor.bytes.duplicate().put(values) else refuse("bytes")
}

fun TensorSpec.tensorOf(values: IntArray, sizes: Map<String, Int> = emptyMap()): TensorData = filled(values.size, sizes) { tensor ->
    if (dtype == DType.INT32) tensor.bytes.asIntBuffer().put(values) else refuse("ints")
}

fun TensorSpec.tensorOf(values: LongArray, sizes: Map<String, Int> = emptyMap()): TensorData = filled(values.size, sizes) { tensor ->
    if (dtype == DType.INT64) tensor.bytes.asLongBuffer().put(values) else refuse("longs")
}

fun TensorData.floats(): FloatArray = FloatArray(size) { this[it].toFloat() }

fun TensorData.doubles(): DoubleArray = DoubleArray(size) { this[it] }

fun TensorData.bytes(): ByteArray = ByteArray(size).also { bytes.duplicate().get(it) }

fun TensorData.ints(): IntArray = IntArray(size).also { bytes.asIntBuffer().get(it) }

fun TensorData.longs(): LongArray = LongArray(size).also { bytes.asLongBuffer().get(it) }

private fun TensorSpec.filled(count: Int, sizes: Map<String, Int>, fill: (TensorData) -> Unit): TensorData {
    val tensor = TensorData.allocate(dtype, shapeFor(sizes))
    if (tensor.size != count) {
        throw TensorException("$name needs ${tensor.size} values, ${tensor.shape.joinToString(" × ")}, not $count")
    }
    return tensor.also(fill)
}

private fun TensorSpec.refuse(given: String): Nothing = throw TensorException("$name is ${dtype.label}, and is not made of $given")
