package dev.edgex.model.text

import java.util.PriorityQueue
import kotlin.math.exp

/**
 * How a token is chosen: the likeliest where [temperature] is 0, else one drawn from the [topK] likeliest (0: all), and of these
 * from the fewest that hold [topP] of the probability. Scores of ids that are in the text are divided by [repetitionPenalty]
 * where they are positive, else multiplied. Equal seeds give equal texts; without one, each text is another.
 */
data class Sampling(
    val temperature: Double = 0.0,
    val topK: Int = 0,
    val topP: Double = 1.0,
    val repetitionPenalty: Double = 1.0,
    val seed: Long? = null,
) {
    init {
        val isPossible = temperature >= 0 && topK >= 0 && topP > 0 && topP <= 1 && repetitionPenalty > 0 && (seed ?: 0) >= 0
        require(isPossible) { "nothing can be chosen by $this" }
    }
}

/** Chooses one token after the other, as edgex does on a computer: with a seed, the same ones. */
class Sampler(private val sampling: Sampling) {
    private val random = if (sampling.temperature > 0) NumpyRandom(sampling.seed ?: System.nanoTime()) else null

    /** The id that follows [text], by one score for each id. */
    fun choose(scores: DoubleArray, text: Collection<Int>): Int {
        if (sampling.repetitionPenalty != 1.0) {
            val penalty = sampling.repetitionPenalty
            for (id in text.toSet()) scores[id] = scores[id].let { if (it > 0) it / penalty else it * penalty }
        }
        val best = scores.indices.maxBy { scores[it] }
        check(scores[best].isFinite()) { "the best score that the model gave is ${scores[best]}" }
        return if (random == null) best else draw(scores, random.draw())
    }

    private fun draw(scores: DoubleArray, drawn: Double): Int {
        val best = scores.max()
        fun share(id: Int) = exp((scores[id] - best) / sampling.temperature)

        // A heap gives the likeliest of a vocabulary without sorting it.
        val heap = PriorityQueue(compareByDescending<Int> { scores[it] }.thenBy { it }).apply { addAll(scores.indices) }
        val likeliest = generateSequence(heap::poll)
        val kept = if (sampling.topK in 1 until scores.size) likeliest.take(sampling.topK).toList() else null
        val all = (kept ?: scores.indices).sumOf(::share)
        val ids = kept?.asSequence() ?: likeliest
        if (sampling.topP == 1.0) return pick(ids, drawn) { share(it) / all }
        var held = 0.0
        val fewest = ids.takeWhile { id -> (held / all < sampling.topP).also { if (it) held += share(id) } }.toList()
        return pick(fewest.asSequence(), drawn) { share(it) / held }
    }

    /** The first whose cumulated share exceeds the draw; rounding may keep the last sum below it. */
    private fun pick(ids: Sequence<Int>, drawn: Double, share: (Int) -> Double): Int {
        var last = 0
        var cumulated = 0.0
        for (id in ids) {
            last = id
            cumulated += share(id)
            if (cumulated > drawn) break
        }
        return last
    }
}
