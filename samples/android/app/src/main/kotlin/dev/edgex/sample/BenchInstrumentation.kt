package dev.edgex.sample

import android.app.Activity
import android.app.Instrumentation
import android.os.Bundle
import dev.edgex.model.measure.ProgressListener
import dev.edgex.model.measure.Stage
import dev.edgex.model.writeJson
import dev.edgex.sample.job.JobAnswer
import dev.edgex.sample.job.ReportCodec

/**
 * The benchmark without a screen, in a process of its own:
 *
 * `adb shell am instrument -w -r -e runs 100 -e threads 0 -e run_id ID APPLICATION/dev.edgex.sample.BenchInstrumentation`
 *
 * With `-e task describe`, `job` or `cold` it serves `edgex --device adb`: see [HeadlessTask].
 *
 * Progress comes as status 1. The answer comes as status 2, in pieces of base64 (`edgex_chunk`, numbered by `edgex_at` of
 * `edgex_chunks`), which joined are zlib-compressed JSON. The result is -1 and names the run, or 0 with `edgex_error`.
 */
class BenchInstrumentation : Instrumentation() {
    private lateinit var arguments: Bundle

    override fun onCreate(arguments: Bundle?) {
        super.onCreate(arguments)
        this.arguments = arguments ?: Bundle()
        start()
    }

    override fun onStart() {
        var task: HeadlessTask? = null
        try {
            task = HeadlessTask(targetContext.applicationContext as SampleApplication) { arguments.getString(it) }
            sendReport(task.execute(Throttled()))
            finish(Activity.RESULT_OK, bundle("edgex_run_id" to task.request.runId))
        } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
            // The far end reads this line; a stack trace in the log would not reach it.
            val message = writeJson(JobAnswer.error(task?.request?.runId.orEmpty(), error))
            finish(Activity.RESULT_CANCELED, bundle("edgex_error" to message))
        }
    }

    private fun sendReport(json: String) {
        val chunks = ReportCodec.encode(json)
        chunks.forEachIndexed { at, chunk ->
            sendStatus(REPORT, bundle("edgex_at" to "$at", "edgex_chunks" to "${chunks.size}", "edgex_chunk" to chunk))
        }
    }

    /** Every stage, and within a stage four lines a second: a line a run would cost more than the run. */
    private inner class Throttled : ProgressListener {
        private var stage: Stage? = null
        private var sentNanos = 0L

        override fun onProgress(stage: Stage, done: Int, total: Int) {
            val now = System.nanoTime()
            if (stage == this.stage && now - sentNanos < INTERVAL_NANOS && done != total) return
            this.stage = stage
            sentNanos = now
            sendStatus(PROGRESS, bundle("edgex_stage" to stage.name.lowercase(), "edgex_done" to "$done", "edgex_total" to "$total"))
        }
    }

    private fun bundle(vararg entries: Pair<String, String>) =
        Bundle().apply { entries.forEach { (key, value) -> putString(key, value) } }

    private companion object {
        const val PROGRESS = 1
        const val REPORT = 2
        const val INTERVAL_NANOS = 250_000_000L
    }
}
