package dev.edgex.model.tensor

import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.Random

/** Values typed by a person or read from a file that do not make the tensor they should. */
class TensorException(message: String) : Exception(message)

/** A tensor in direct memory, C-contiguous, in the machine's byte order; [bytes] begins at its first element. */
class TensorData private constructor(val dtype: DType, val shape: IntArray, val bytes: ByteBuffer) {
    val size: Int get() = bytes.capacity() / dtype.bytes

    operator fun get(index: Int): Double = when (dtype) {
        DType.FLOAT32 -> bytes.getFloat(index * 4).toDouble()
        DType.FLOAT64 -> bytes.getDouble(index * 8)
        DType.FLOAT16 -> Half.toFloat(bytes.getShort(index * 2)).toDouble()
        DType.INT8 -> bytes.get(index).toDouble()
        DType.UINT8 -> (bytes.get(index).toInt() and 0xff).toDouble()
        DType.INT32 -> bytes.getInt(index * 4).toDouble()
        DType.INT64 -> bytes.getLong(index * 8).toDouble()
    }

    operator fun set(index: Int, value: Double) {
        when (dtype) {
            DType.FLOAT32 -> bytes.putFloat(index * 4, value.toFloat())
            DType.FLOAT64 -> bytes.putDouble(index * 8, value)
            DType.FLOAT16 -> bytes.putShort(index * 2, Half.fromFloat(value.toFloat()))
            DType.INT8, DType.UINT8 -> bytes.put(index, value.toInt().toByte())
            DType.INT32 -> bytes.putInt(index * 4, value.toInt())
            DType.INT64 -> bytes.putLong(index * 8, value.toLong())
        }
    }

    fun copy(): TensorData = allocate(dtype, shape).also { it.bytes.duplicate().put(bytes.duplicate()) }

    fun fill(value: Double): TensorData = apply { for (index in 0 until size) this[index] = value }

    /** Floats from the normal distribution; whole numbers from 0 to 9, which are valid for most tables of tokens. */
    fun fillRandom(seed: Long): TensorData = apply {
        val random = Random(seed)
        for (index in 0 until size) this[index] = if (dtype.isFloat) random.nextGaussian() else random.nextInt(10).toDouble()
    }

    /** Numbers separated by commas or spaces: one for all elements, or one for each. */
    fun fillTyped(text: String): TensorData {
        val words = text.split(',', ' ', '\n', ';').filter { it.isNotBlank() }
        if (words.size != 1 && words.size != size) {
            throw TensorException("$size values are needed, or one for all; ${words.size} were typed")
        }
        val values = words.map { word -> parse(word) }
        for (index in 0 until size) this[index] = values[if (values.size == 1) 0 else index]
        return this
    }

    private fun parse(word: String): Double {
        val value = word.toDoubleOrNull() ?: throw TensorException("\"$word\" is not a number")
        if (!dtype.isFloat && (value != Math.rint(value) || value !in dtype.range)) {
            throw TensorException("$word is not a value of ${dtype.label}")
        }
        return value
    }

    companion object {
        /** XNNPACK's kernels read up to 16 bytes beyond the end of an input; memory that is there lets them. */
        const val SLACK_BYTES = 64

        fun allocate(dtype: DType, shape: IntArray): TensorData {
            val needed = elementCount(shape) * dtype.bytes
            if (needed > Int.MAX_VALUE - SLACK_BYTES) throw TensorException("a tensor of $needed bytes is too large")
            val memory = ByteBuffer.allocateDirect(needed.toInt() + SLACK_BYTES)
            memory.limit(needed.toInt())
            return TensorData(dtype, shape, memory.slice().order(ByteOrder.nativeOrder()))
        }

        /** From the bytes of a file: little-endian, as every Android device is. */
        fun fromBytes(dtype: DType, shape: IntArray, content: ByteArray): TensorData {
            val tensor = allocate(dtype, shape)
            if (content.size != tensor.bytes.capacity()) {
                throw TensorException("${content.size} bytes do not make ${dtype.label}[${shape.joinToString()}]")
            }
            tensor.bytes.duplicate().put(content)
            return tensor
        }
    }
}
