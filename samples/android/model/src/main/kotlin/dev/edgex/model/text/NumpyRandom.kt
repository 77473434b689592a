package dev.edgex.model.text

import java.math.BigInteger

/** NumPy's `default_rng(seed)`: PCG64 (O'Neill, 2014), seeded by its SeedSequence, so that a seed means the same everywhere. */
internal class NumpyRandom(seed: Long) {
    private var state: BigInteger
    private val increment: BigInteger

    init {
        var constant = 0x43b0d7e5u
        fun hash(word: UInt, multiplier: UInt): UInt {
            val mixed = word xor constant
            constant *= multiplier
            return (mixed * constant).let { it xor (it shr 16) }
        }
        val pool = arrayOf(seed.toUInt(), (seed ushr 32).toUInt(), 0u, 0u)
        for (at in pool.indices) pool[at] = hash(pool[at], FILL)
        for (from in pool.indices) {
            for (to in pool.indices) {
                if (from != to) pool[to] = (0xca01f9ddu * pool[to] - 0x4973f715u * hash(pool[from], FILL)).let { it xor (it shr 16) }
            }
        }
        constant = 0x8b51f9ddu
        val words = List(8) { hash(pool[it % pool.size], READ) }
        increment = (join(words.drop(4)).shiftLeft(1) or BigInteger.ONE) and MASK
        state = (increment + join(words)) and MASK
        step()
    }

    /** From 0 to 1, 1 left out. */
    fun draw(): Double {
        step()
        val folded = state.shiftRight(64).toLong() xor state.toLong()
        return (folded.rotateRight(state.shiftRight(122).toInt()) ushr 11) * SMALLEST
    }

    private fun step() {
        state = (state * MULTIPLIER + increment) and MASK
    }

    private companion object {
        const val FILL = 0x931e8875u
        const val READ = 0x58f38dedu
        const val SMALLEST = 1.0 / (1L shl 53)
        val MASK: BigInteger = BigInteger.ONE.shiftLeft(128) - BigInteger.ONE
        val MULTIPLIER = BigInteger("2360ed051fc65da44385df649fccf645", 16)

        /** Pairs of words are 64 bits, the lower half first; of these, the higher comes first. */
        fun join(words: List<UInt>): BigInteger =
            listOf(1, 0, 3, 2).fold(BigInteger.ZERO) { joined, at -> joined.shiftLeft(32) + BigInteger.valueOf(words[at].toLong()) }
    }
}
