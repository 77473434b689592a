package dev.edgex.model

import dev.edgex.model.tensor.TensorData
import kotlin.math.exp

/** One line of a classification: which class, and how sure. */
data class Guess(val index: Int, val label: String, val probability: Double)

/** What a tensor holds, for people. Figures are null where there is no finite value. */
data class TensorSummary(val min: Double?, val max: Double?, val mean: Double?, val notFinite: Int, val first: List<Double>)

/** What values say to people. */
object OutputReading {
    private const val SHOWN = 8

    /** The [count] likeliest classes of one row of scores; [isLogits] says that they are not probabilities yet. */
    fun topGuesses(scores: TensorData, row: Int, labels: List<String>, isLogits: Boolean, count: Int): List<Guess> {
        val classes = scores.shape.last()
        val values = DoubleArray(classes) { scores[row * classes + it] }
        val probabilities = if (isLogits) softmax(values) else values
        return probabilities.indices.sortedByDescending { probabilities[it] }.take(count)
            .map { Guess(it, labels.getOrNull(it) ?: "class $it", probabilities[it]) }
    }

    fun softmax(scores: DoubleArray): DoubleArray {
        val largest = scores.maxOrNull() ?: return scores
        val powers = DoubleArray(scores.size) { exp(scores[it] - largest) }
        val sum = powers.sum()
        return DoubleArray(scores.size) { powers[it] / sum }
    }

    fun summarize(tensor: TensorData): TensorSummary {
        var min = Double.POSITIVE_INFINITY
        var max = Double.NEGATIVE_INFINITY
        var sum = 0.0
        var finite = 0
        for (index in 0 until tensor.size) {
            val value = tensor[index]
            if (!value.isFinite()) continue
            finite++
            sum += value
            if (value < min) min = value
            if (value > max) max = value
        }
        val first = List(minOf(SHOWN, tensor.size)) { tensor[it] }
        val none = finite == 0
        return TensorSummary(
            if (none) null else min, if (none) null else max, if (none) null else sum / finite, tensor.size - finite, first,
        )
    }
}
