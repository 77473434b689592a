package dev.edgex.model.tensor

import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class TensorDataTest {
    @Test
    fun `every type keeps its values`() {
        for (dtype in DType.entries) {
            val tensor = TensorData.allocate(dtype, intArrayOf(2, 2))
            val values = if (dtype == DType.UINT8) listOf(0.0, 1.0, 200.0, 255.0) else listOf(0.0, 1.0, -2.0, 100.0)
            values.forEachIndexed { at, value -> tensor[at] = value }
            assertEquals(dtype.label, values, List(tensor.size) { tensor[it] })
            assertTrue(tensor.bytes.isDirect)
            assertEquals(4 * dtype.bytes, tensor.bytes.capacity())
        }
    }

    @Test
    fun `halves round to nearest even and keep what is special`() {
        for (bits in 0..0xffff) {
            val half = bits.toShort()
            val value = Half.toFloat(half)
            if (value.isNaN()) assertTrue(Half.toFloat(Half.fromFloat(value)).isNaN()) else assertEquals(half, Half.fromFloat(value))
        }
        assertEquals(1.0f, Half.toFloat(Half.fromFloat(1.00048828125f)))
        assertEquals(1.001953125f, Half.toFloat(Half.fromFloat(1.00146484375f)))
        assertEquals(Float.POSITIVE_INFINITY, Half.toFloat(Half.fromFloat(65520f)))
        assertEquals(65504f, Half.toFloat(Half.fromFloat(65519f)))
        assertEquals(0f, Half.toFloat(Half.fromFloat(1e-9f)))
    }

    @Test
    fun `typed values fill the tensor or are refused`() {
        val tensor = TensorData.allocate(DType.UINT8, intArrayOf(3))
        assertEquals(listOf(1.0, 2.0, 255.0), tensor.fillTyped("1, 2 255").let { t -> List(3) { t[it] } })
        assertEquals(listOf(7.0, 7.0, 7.0), tensor.fillTyped("7").let { t -> List(3) { t[it] } })
        for (text in listOf("", "1 2", "x", "256", "1.5", "-1")) {
            assertThrows(text, TensorException::class.java) { tensor.fillTyped(text) }
        }
    }

    @Test
    fun `equal seeds give equal values`() {
        val one = TensorData.allocate(DType.FLOAT32, intArrayOf(9)).fillRandom(1)
        val two = TensorData.allocate(DType.FLOAT32, intArrayOf(9)).fillRandom(1)
        assertEquals(List(9) { one[it] }, List(9) { two[it] })
        assertTrue(List(9) { one[it] }.toSet().size > 5)
    }

    @Test
    fun `bytes of another size are refused`() {
        assertThrows(TensorException::class.java) { TensorData.fromBytes(DType.INT32, intArrayOf(2), ByteArray(7)) }
        assertThrows(TensorException::class.java) { TensorData.allocate(DType.FLOAT64, intArrayOf(1 shl 20, 1 shl 10)) }
    }
}
