package dev.edgex.model.tensor

/** IEEE 754 half precision: 1 sign, 5 exponent and 10 fraction bits. */
object Half {
    fun toFloat(bits: Short): Float {
        val half = bits.toInt() and 0xffff
        val sign = (half and 0x8000) shl 16
        val exponent = (half ushr 10) and 0x1f
        val fraction = half and 0x3ff
        return when {
            exponent == 0x1f -> Float.fromBits(sign or 0x7f800000 or (fraction shl 13))
            exponent != 0 -> Float.fromBits(sign or ((exponent + 112) shl 23) or (fraction shl 13))
            else -> Float.fromBits(sign or (fraction * SMALLEST).toRawBits())
        }
    }

    /** Rounds to the nearest half, ties to even. */
    fun fromFloat(value: Float): Short {
        val bits = value.toRawBits()
        val sign = (bits ushr 16) and 0x8000
        val magnitude = bits and 0x7fffffff
        val half = when {
            magnitude > 0x7f800000 -> 0x7e00
            magnitude >= 0x477ff000 -> 0x7c00
            magnitude < 0x38800000 -> Math.rint(Float.fromBits(magnitude).toDouble() / SMALLEST).toInt()
            else -> {
                val rounded = magnitude + 0xfff + ((magnitude ushr 13) and 1)
                (rounded - 0x38000000) ushr 13
            }
        }
        return (sign or half).toShort()
    }

    private const val SMALLEST = 5.9604645e-8f // 2^-24, the smallest positive half
}
