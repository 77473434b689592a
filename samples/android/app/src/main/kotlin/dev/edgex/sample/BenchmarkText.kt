package dev.edgex.sample

import android.content.res.Resources
import dev.edgex.model.measure.BenchmarkResult

/** A benchmark in words, for the screen, for TalkBack and for sharing. */
class BenchmarkText(private val resources: Resources) {
    fun headline(result: BenchmarkResult): String =
        resources.getString(R.string.median, formatSeconds(result.summary.median), result.summary.n)

    fun figures(result: BenchmarkResult): String {
        val summary = result.summary
        return listOfNotNull(
            summary.medianCi95?.let { line(R.string.interval, "${formatSeconds(it.first)} – ${formatSeconds(it.second)}") },
            line(R.string.fastest, formatSeconds(summary.min)),
            summary.p90?.let { line(R.string.p90, formatSeconds(it)) },
            summary.p99?.let { line(R.string.p99, formatSeconds(it)) },
            line(R.string.load_time, formatSeconds((result.load.program ?: 0.0) + result.load.method)),
            line(R.string.first_run, formatSeconds(result.firstSeconds)),
            result.copySeconds?.let { line(R.string.copy_time, formatSeconds(it)) },
            result.memory.peakRssBytes?.let { line(R.string.peak_memory, formatBytes(it)) },
        ).joinToString("\n")
    }

    fun histogram(result: BenchmarkResult): String = resources.getString(
        R.string.histogram, formatSeconds(result.summary.min), formatSeconds(result.summary.median),
    )

    /** The figures for people, and below them the report for tools as far as a message can hold it. */
    fun share(result: BenchmarkResult, json: String): String {
        val text = headline(result) + "\n" + figures(result) + "\n" + ParityText(resources).describe(result.parity)
        return if (json.length > MAX_SHARED) text else "$text\n\n$json"
    }

    private fun line(label: Int, value: String) = resources.getString(R.string.figure, resources.getString(label), value)

    private companion object {
        /** Intents travel through a buffer of about a megabyte that all transactions of the process share. */
        const val MAX_SHARED = 200_000
    }
}
