package dev.edgex.model.image

import kotlin.math.abs
import kotlin.math.floor
import kotlin.math.max
import kotlin.math.min

/** A picture as ARGB integers, row by row, as Android's bitmaps give them. */
class Picture(val width: Int, val height: Int, val pixels: IntArray) {
    init {
        require(width > 0 && height > 0 && pixels.size == width * height) { "${pixels.size} pixels for $width x $height" }
    }
}

/**
 * Bilinear resizing that averages when it makes smaller, as Pillow's does: models were trained on such pictures.
 *
 * Android's own scaling looks at four pixels whatever the factor, and its result differs from a desktop's.
 */
object Resize {
    fun bilinear(source: Picture, width: Int, height: Int): Picture {
        val columns = weights(source.width, width)
        val rows = weights(source.height, height)
        val narrow = IntArray(width * source.height)
        for (y in 0 until source.height) {
            for (x in 0 until width) {
                narrow[y * width + x] = blend(columns[x]) { at -> source.pixels[y * source.width + at] }
            }
        }
        val result = IntArray(width * height)
        for (y in 0 until height) {
            for (x in 0 until width) result[y * width + x] = blend(rows[y]) { at -> narrow[at * width + x] }
        }
        return Picture(width, height, result)
    }

    private class Weights(val first: Int, val shares: FloatArray)

    private fun weights(from: Int, to: Int): List<Weights> {
        val scale = from.toDouble() / to
        val support = max(scale, 1.0)
        return List(to) { at ->
            val centre = (at + 0.5) * scale
            val first = max(floor(centre - support + 0.5).toInt(), 0)
            val end = min(floor(centre + support + 0.5).toInt(), from)
            val raw = DoubleArray(end - first) { max(0.0, 1.0 - abs((first + it + 0.5 - centre) / support)) }
            val sum = raw.sum()
            Weights(first, FloatArray(raw.size) { (raw[it] / sum).toFloat() })
        }
    }

    private inline fun blend(weights: Weights, pixel: (Int) -> Int): Int {
        var red = 0f
        var green = 0f
        var blue = 0f
        for ((at, share) in weights.shares.withIndex()) {
            val colour = pixel(weights.first + at)
            red += share * ((colour shr 16) and 0xff)
            green += share * ((colour shr 8) and 0xff)
            blue += share * (colour and 0xff)
        }
        return OPAQUE or (toByte(red) shl 16) or (toByte(green) shl 8) or toByte(blue)
    }

    private fun toByte(value: Float): Int = (value + 0.5f).toInt().coerceIn(0, 255)

    /** The largest power of two by which a picture can be decoded smaller and still has [atLeast] pixels a side. */
    fun sampleSize(width: Int, height: Int, atLeast: Int): Int {
        var factor = 1
        while (min(width, height) / (factor * 2) >= max(atLeast, 1)) factor *= 2
        return factor
    }

    private const val OPAQUE = 0xff shl 24
}
