package dev.edgex.model.image

import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData
import java.io.File
import kotlin.math.abs
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeTrue
import org.junit.Test

class PictureFormatTest {
    private val colours = Picture(2, 1, intArrayOf(0xff_ff_80_00.toInt(), 0xff_00_40_ff.toInt()))

    private fun input(layout: Layout, color: ColorOrder = ColorOrder.RGB, mean: Double = 0.0, std: Double = 1.0) =
        PictureFormat(layout, color, List(3) { mean }, List(3) { std })

    @Test
    fun `bytes go where the layout says`() {
        val nhwc = TensorData.allocate(DType.UINT8, intArrayOf(1, 1, 2, 3))
        input(Layout.NHWC).fill(colours, nhwc)
        assertEquals(listOf(255.0, 128.0, 0.0, 0.0, 64.0, 255.0), List(6) { nhwc[it] })
        val nchw = TensorData.allocate(DType.UINT8, intArrayOf(1, 3, 1, 2))
        input(Layout.NCHW, ColorOrder.BGR).fill(colours, nchw)
        assertEquals(listOf(0.0, 255.0, 128.0, 64.0, 255.0, 0.0), List(6) { nchw[it] })
    }

    @Test
    fun `floats are normalised and every item of a batch is filled`() {
        val tensor = TensorData.allocate(DType.FLOAT32, intArrayOf(2, 3, 1, 2))
        input(Layout.NCHW, mean = 0.5, std = 0.25).fill(colours, tensor)
        assertEquals(2.0, tensor[0], 1e-6)
        assertEquals((64 / 255.0 - 0.5) / 0.25, tensor[3], 1e-6)
        assertEquals(List(6) { tensor[it] }, List(6) { tensor[6 + it] })
    }

    @Test
    fun `grey is weighted`() {
        val tensor = TensorData.allocate(DType.UINT8, intArrayOf(1, 1, 1, 2))
        input(Layout.NCHW).fill(colours, tensor)
        assertEquals(listOf(151.0, 67.0), List(2) { tensor[it] })
    }

    @Test
    fun `smaller pictures are averages`() {
        val stripes = Picture(8, 8, IntArray(64) { if (it % 2 == 0) 0xff_ff_ff_ff.toInt() else 0xff_00_00_00.toInt() })
        val small = Resize.bilinear(stripes, 2, 2)
        for (pixel in small.pixels) assertTrue(abs((pixel and 0xff) - 128) < 12)
        assertEquals(4, Resize.sampleSize(1000, 800, 200))
        assertEquals(1, Resize.sampleSize(100, 80, 200))
    }

    /** A picture and what Pillow makes of it, as raw RGB, where -Dedgex.pillow names the folder. */
    @Test
    fun `resizing gives Pillow's pixels`() {
        val folder = System.getProperty("edgex.pillow")
        assumeTrue("no -Dedgex.pillow", folder != null)
        val names = File(folder!!).list()!!.filter { it.startsWith("small") }
        assertTrue(names.isNotEmpty())
        val big = read(File(folder, "big-61x47.rgb"))
        for (name in names) {
            val expected = read(File(folder, name))
            val found = Resize.bilinear(big, expected.width, expected.height)
            val furthest = expected.pixels.indices.maxOf { at -> (0..16 step 8).maxOf { shift ->
                abs(((expected.pixels[at] shr shift) and 0xff) - ((found.pixels[at] shr shift) and 0xff))
            } }
            assertTrue("$name: $furthest", furthest <= 1)
        }
    }

    private fun read(file: File): Picture {
        val (width, height) = Regex("(\\d+)x(\\d+)").find(file.name)!!.destructured.let { (w, h) -> w.toInt() to h.toInt() }
        val bytes = file.readBytes()
        return Picture(width, height, IntArray(width * height) { at ->
            val (r, g, b) = List(3) { bytes[at * 3 + it].toInt() and 0xff }
            (0xff shl 24) or (r shl 16) or (g shl 8) or b
        })
    }

    @Test
    fun `a picture comes back from the tensor that it was written to`() {
        for (layout in Layout.entries) {
            for (color in ColorOrder.entries) {
                val shape = if (layout == Layout.NHWC) intArrayOf(1, 1, 2, 3) else intArrayOf(1, 3, 1, 2)
                val format = input(layout, color, mean = 0.5, std = 0.25)
                val tensor = TensorData.allocate(DType.FLOAT32, shape).also { format.fill(colours, it) }
                assertEquals(colours.pixels.asList(), format.read(tensor).pixels.asList())
            }
        }
    }
}
