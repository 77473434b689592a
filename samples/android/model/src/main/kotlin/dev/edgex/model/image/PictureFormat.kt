package dev.edgex.model.image

import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData

enum class Layout(val label: String) { NCHW("NCHW"), NHWC("NHWC") }

enum class ColorOrder(val label: String) { RGB("RGB"), BGR("BGR") }

/**
 * How a tensor holds pictures: bytes as they are for uint8, else `(byte / 255 - mean) / std` for each channel.
 *
 * This is what `edgex run -i name=photo.jpg` does on a desktop.
 */
data class PictureFormat(val layout: Layout, val color: ColorOrder, val mean: List<Double>, val std: List<Double>) {
    /** Height and width of the pictures that a tensor of this shape holds. */
    fun sizeOf(shape: IntArray): Pair<Int, Int> =
        if (layout == Layout.NHWC) shape[1] to shape[2] else shape[2] to shape[3]

    /** Writes a picture into every item of the batch; channels are 3, or 1 for grey. */
    fun fill(picture: Picture, target: TensorData) {
        val (height, width) = sizeOf(target.shape)
        val channels = target.shape[if (layout == Layout.NHWC) 3 else 1]
        val fitted = if (picture.width == width && picture.height == height) picture else Resize.bilinear(picture, width, height)
        val area = width * height
        for (item in 0 until target.shape[0]) {
            val base = item * area * channels
            for (pixel in 0 until area) {
                for (channel in 0 until channels) {
                    val at = if (layout == Layout.NHWC) pixel * channels + channel else channel * area + pixel
                    target[base + at] = value(byteOf(fitted.pixels[pixel], channel, channels), channel, target.dtype)
                }
            }
        }
    }

    /** The first picture of a tensor; values beyond a byte are cut off, as a screen would. */
    fun read(source: TensorData): Picture {
        val (height, width) = sizeOf(source.shape)
        val channels = source.shape[if (layout == Layout.NHWC) 3 else 1]
        val area = width * height
        fun byteAt(pixel: Int, channel: Int): Int {
            val value = source[if (layout == Layout.NHWC) pixel * channels + channel else channel * area + pixel]
            val byte = if (source.dtype == DType.UINT8) value else (value * std[channel] + mean[channel]) * 255
            return Math.round(byte).coerceIn(0L, 255L).toInt()
        }
        return Picture(width, height, IntArray(area) { pixel ->
            val bytes = IntArray(3) { byteAt(pixel, if (channels == 1) 0 else it) }
            if (color == ColorOrder.BGR) bytes.reverse()
            (0xff shl 24) or (bytes[0] shl 16) or (bytes[1] shl 8) or bytes[2]
        })
    }

    private fun byteOf(colour: Int, channel: Int, channels: Int): Int {
        val red = (colour shr 16) and 0xff
        val green = (colour shr 8) and 0xff
        val blue = colour and 0xff
        // The weights of ITU-R 601, in the whole numbers that Pillow computes grey with.
        if (channels == 1) return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) shr 16
        return when (if (color == ColorOrder.BGR) 2 - channel else channel) {
            0 -> red
            1 -> green
            else -> blue
        }
    }

    private fun value(byte: Int, channel: Int, dtype: DType): Double =
        if (dtype == DType.UINT8) byte.toDouble() else (byte / 255.0 - mean[channel]) / std[channel]
}
