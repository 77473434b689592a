package dev.edgex.sample

import android.app.Activity
import android.app.Instrumentation
import android.os.Bundle
import dev.edgex.sample.core.BenchmarkRequest
import dev.edgex.sample.core.BenchmarkRun
import dev.edgex.sample.core.Json
import dev.edgex.sample.core.ProgressListener
import dev.edgex.sample.core.Report
import dev.edgex.sample.core.ReportCodec
import dev.edgex.sample.core.Stage

/**
 * The benchmark without a screen, in a process of its own:
 *
 * `adb shell am instrument -w -r -e runs 100 -e threads 0 -e run_id ID APPLICATION/dev.edgex.sample.BenchInstrumentation`
 *
 * Progress comes as status 1. The report comes as status 2, in pieces of base64 (`edgex_chunk`, numbered by `edgex_at` of
 * `edgex_chunks`), which joined are zlib-compressed JSON. The result is -1 and names run and model, or 0 with `edgex_error`.
 */
class BenchInstrumentation : Instrumentation() {
    private lateinit var arguments: Bundle

    override fun onCreate(arguments: Bundle?) {
        super.onCreate(arguments)
        this.arguments = arguments ?: Bundle()
        start()
    }

    override fun onStart() {
        try {
            val request = BenchmarkRequest.parse { arguments.getString(it) }
            val application = targetContext.applicationContext as SampleApplication
            val result = BenchmarkRun(application.manifest, application.platform, Throttled()).execute(request)
            val device = application.platform.describeDevice()
            val json = Json.write(Report.toJson(application.manifest, device, result))
            application.platform.reportFolder()?.let { ReportFile.write(it, request.runId, json) }
            sendReport(json)
            finish(Activity.RESULT_OK, bundle("edgex_run_id" to request.runId, "edgex_model" to application.manifest.model.sha256))
        } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
            // The far end reads this line; a stack trace in the log would not reach it.
            val message = Json.write(mapOf("kind" to error.javaClass.simpleName, "message" to error.message))
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
