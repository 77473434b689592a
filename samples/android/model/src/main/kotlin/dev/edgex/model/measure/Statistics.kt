package dev.edgex.model.measure

import java.util.Random
import kotlin.math.abs

/** Samples in figures, in seconds; the names and the rules are those of `edgex.profile/2`. */
data class Summary(
    val n: Int,
    val min: Double,
    val median: Double,
    val medianCi95: Pair<Double, Double>?,
    val mean: Double,
    val p90: Double?,
    val p95: Double?,
    val p99: Double?,
    val mad: Double,
    val outlierShare: Double,
)

object Statistics {
    private const val MIN_ROUNDS = 6
    private const val RESAMPLES = 400

    /** [rounds] of samples in seconds; calls of one round share the state of the device, so rounds are resampled. */
    fun summarize(rounds: List<DoubleArray>): Summary {
        val pooled = rounds.flatMap { it.asList() }.toDoubleArray().apply { sort() }
        require(pooled.isNotEmpty()) { "no samples" }
        val middle = median(pooled)
        val deviations = DoubleArray(pooled.size) { abs(pooled[it] - middle) }.apply { sort() }
        val third = percentile(pooled, 75.0)
        val limit = third + 3 * (third - percentile(pooled, 25.0))
        return Summary(
            n = pooled.size,
            min = pooled.first(),
            median = middle,
            medianCi95 = bootstrapMedian(rounds),
            mean = pooled.average(),
            p90 = if (pooled.size >= 10) percentile(pooled, 90.0) else null,
            p95 = if (pooled.size >= 20) percentile(pooled, 95.0) else null,
            p99 = if (pooled.size >= 1000) percentile(pooled, 99.0) else null,
            mad = median(deviations),
            outlierShare = pooled.count { it > limit }.toDouble() / pooled.size,
        )
    }

    /** The value below which [percent] of the sorted samples lie, interpolated between neighbours. */
    fun percentile(sorted: DoubleArray, percent: Double): Double {
        val place = (sorted.size - 1) * percent / 100
        val below = place.toInt()
        val above = minOf(below + 1, sorted.size - 1)
        return sorted[below] + (sorted[above] - sorted[below]) * (place - below)
    }

    fun median(sorted: DoubleArray): Double = percentile(sorted, 50.0)

    /** 95 % interval of the median by resampling whole rounds; null under six rounds, which cannot carry one. */
    fun bootstrapMedian(rounds: List<DoubleArray>, seed: Long = 0): Pair<Double, Double>? {
        if (rounds.size < MIN_ROUNDS) return null
        val random = Random(seed)
        val medians = DoubleArray(RESAMPLES) {
            val chosen = List(rounds.size) { rounds[random.nextInt(rounds.size)] }
            median(chosen.flatMap { it.asList() }.toDoubleArray().apply { sort() })
        }
        medians.sort()
        return percentile(medians, 2.5) to percentile(medians, 97.5)
    }

    /** Counts of samples in [bins] equal parts of the range from the smallest to the 99th percentile; the rest is in the last. */
    fun histogram(samples: DoubleArray, bins: Int): IntArray {
        val sorted = samples.copyOf().apply { sort() }
        val counts = IntArray(bins)
        if (sorted.isEmpty()) return counts
        val low = sorted.first()
        val width = (percentile(sorted, 99.0) - low) / bins
        for (sample in sorted) {
            val bin = if (width > 0) ((sample - low) / width).toInt() else 0
            counts[bin.coerceIn(0, bins - 1)]++
        }
        return counts
    }
}
