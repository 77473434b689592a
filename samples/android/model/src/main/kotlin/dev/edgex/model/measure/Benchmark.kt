package dev.edgex.model.measure

import dev.edgex.model.engine.LoadMode
import kotlin.math.abs

/** Somebody asked for the end. */
class CancelledException : Exception("cancelled")

/**
 * What to measure. [warmup] null warms up until the latency settles; [threads] 0 leaves the number to the engine, [loadMode]
 * null the way of loading.
 */
data class BenchmarkSettings(
    val runs: Int = 100,
    val warmup: Int? = null,
    val threads: Int = 0,
    val loadMode: LoadMode? = null,
) {
    companion object {
        val RUNS = 1..10_000
        val WARMUP = 0..10_000
        val THREADS = 0..64
    }
}

/** [settled] is null where the number of runs was given. */
data class WarmUp(val runs: Int, val seconds: Double, val settled: Boolean?)

/** Samples in seconds, in the rounds in which they were taken. */
data class Measurement(val warmUp: WarmUp, val rounds: List<DoubleArray>) {
    val samplesPerRound: Int get() = rounds.first().size
}

enum class Stage { COPY, LOAD, FIRST_RUN, WARM_UP, MEASURE, PARITY, MEMORY }

/** Told how far the work is; [total] is 0 where that is not known. */
fun interface ProgressListener {
    fun onProgress(stage: Stage, done: Int, total: Int)
}

/**
 * Times one call many times.
 *
 * A model with state is called [steps] times in a row and then [reset], because its memory (a cache, say) has an end.
 * Neither that nor [prepare], called before each run, is timed. [clock] is in nanoseconds, so that tests can bring their own.
 */
class Benchmark(
    private val call: () -> Unit,
    private val prepare: (step: Int) -> Unit = {},
    private val steps: Int = 1,
    private val reset: () -> Unit = {},
    private val clock: () -> Long = System::nanoTime,
    private val progress: ProgressListener = ProgressListener { _, _, _ -> },
    private val cancelled: () -> Boolean = { false },
) {
    private var step = 0

    fun measure(settings: BenchmarkSettings): Measurement = measure(settings.runs, settings.warmup)

    /** [runs] null takes about three seconds' worth. */
    fun measure(runs: Int?, warmup: Int?): Measurement {
        val warmUp = warmUp(warmup)
        val wanted = runs ?: countFor(DEFAULT_SECONDS)
        val rounds = ArrayList<DoubleArray>()
        var taken = 0
        for (size in split(wanted)) {
            rounds += DoubleArray(size) { next() }
            taken += size
            progress.onProgress(Stage.MEASURE, taken, wanted)
        }
        return Measurement(warmUp, rounds)
    }

    /** How many runs fill the time, by a few that are not kept. */
    private fun countFor(seconds: Double): Int {
        val typical = Statistics.median(DoubleArray(PROBES) { next() }.apply { sort() })
        return (seconds / maxOf(typical, SHORTEST_SECONDS)).toInt().coerceIn(LEAST_RUNS, MOST_RUNS)
    }

    private fun warmUp(runs: Int?): WarmUp {
        val started = clock()
        fun seconds() = (clock() - started) / NANOS
        if (runs != null) {
            repeat(runs) { next() }
            return WarmUp(runs, seconds(), null)
        }
        var before: Double? = null
        var done = 0
        while (done < MAX_WARMUP_RUNS && seconds() < MAX_WARMUP_SECONDS || done == 0) {
            val window = Statistics.median(DoubleArray(WINDOW) { next() }.apply { sort() })
            done += WINDOW
            progress.onProgress(Stage.WARM_UP, done, 0)
            if (before != null && abs(window / before - 1) <= SETTLED_WITHIN) return WarmUp(done, seconds(), true)
            before = window
        }
        return WarmUp(done, seconds(), false)
    }

    /** One sample in seconds. */
    private fun next(): Double {
        if (cancelled()) throw CancelledException()
        if (step == steps) {
            reset()
            step = 0
        }
        prepare(step)
        val started = clock()
        call()
        val ended = clock()
        step++
        return (ended - started) / NANOS
    }

    companion object {
        private const val NANOS = 1e9
        private const val WINDOW = 10
        private const val SETTLED_WITHIN = 0.02
        private const val MAX_WARMUP_RUNS = 500
        private const val MAX_WARMUP_SECONDS = 10.0
        private const val ROUNDS = 20
        private const val DEFAULT_SECONDS = 3.0
        private const val PROBES = 3
        private const val SHORTEST_SECONDS = 1e-6
        private const val LEAST_RUNS = 20
        private const val MOST_RUNS = 10_000

        /** Sizes of up to 20 rounds that differ by at most one. */
        fun split(runs: Int): List<Int> {
            val rounds = minOf(ROUNDS, runs)
            return List(rounds) { runs / rounds + if (it < runs % rounds) 1 else 0 }
        }
    }
}
