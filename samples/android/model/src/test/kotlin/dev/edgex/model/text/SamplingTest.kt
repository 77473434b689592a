package dev.edgex.model.text

import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class SamplingTest {
    private val scores = doubleArrayOf(1.0, 3.0, 2.0, 3.0, Double.NEGATIVE_INFINITY)

    private fun choose(sampling: Sampling, text: List<Int> = emptyList()) = Sampler(sampling).choose(scores.copyOf(), text)

    @Test
    fun `draws are those of NumPy`() {
        for ((seed, first, second) in listOf(
            Triple(0L, 0.6369616873214543, 0.2697867137638703),
            Triple(7L, 0.625095466604667, 0.8972138009695755),
            Triple((1L shl 40) + 3, 0.7736560850714245, 0.9958573802012665),
        )) {
            val random = NumpyRandom(seed)
            assertEquals(first, random.draw(), 0.0)
            assertEquals(second, random.draw(), 0.0)
        }
    }

    @Test
    fun `the likeliest is the first of equals, and a penalty makes it another`() {
        assertEquals(1, choose(Sampling()))
        assertEquals(3, choose(Sampling(repetitionPenalty = 1.2), listOf(1)))
        assertEquals(1, choose(Sampling(temperature = 1.0, topK = 1, seed = 5)))
        assertEquals(1, choose(Sampling(temperature = 1e-9, topP = 0.4, seed = 5)))
    }

    @Test
    fun `what is drawn lies in what is kept, and an equal seed draws the same`() {
        fun many(sampling: Sampling) = Sampler(sampling).let { sampler -> List(200) { sampler.choose(scores.copyOf(), emptyList()) } }
        assertEquals(setOf(1, 3), many(Sampling(temperature = 1.0, topK = 2, seed = 1)).toSet())
        assertEquals(setOf(1, 3, 2), many(Sampling(temperature = 1.0, topP = 0.9, seed = 1)).toSet())
        assertTrue(4 !in many(Sampling(temperature = 100.0, seed = 1)))
        assertEquals(many(Sampling(temperature = 1.0, seed = 9)), many(Sampling(temperature = 1.0, seed = 9)))
    }

    @Test
    fun `scores that are no numbers, and settings that mean nothing, are refused`() {
        assertThrows(IllegalStateException::class.java) { Sampler(Sampling()).choose(doubleArrayOf(1.0, Double.NaN), emptyList()) }
        for (wrong in listOf({ Sampling(temperature = -1.0) }, { Sampling(topP = 0.0) }, { Sampling(seed = -1) })) {
            assertThrows(IllegalArgumentException::class.java) { wrong() }
        }
    }
}
