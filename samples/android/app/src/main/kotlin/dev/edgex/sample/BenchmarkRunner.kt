package dev.edgex.sample

import dev.edgex.model.ModelThread
import dev.edgex.model.measure.BenchmarkRequest
import dev.edgex.model.measure.BenchmarkResult
import dev.edgex.model.measure.CancelledException
import dev.edgex.model.measure.Report
import dev.edgex.model.measure.ReportWarning
import dev.edgex.model.measure.Stage
import dev.edgex.model.writeJson
import java.io.File

/** What the benchmark screen shows. [json] is the finished report. */
data class BenchmarkState(
    val isRunning: Boolean = false,
    val stage: Stage? = null,
    val done: Int = 0,
    val total: Int = 0,
    val result: BenchmarkResult? = null,
    val warnings: List<ReportWarning> = emptyList(),
    val json: String? = null,
    val error: String? = null,
)

/** Runs the benchmark; it goes on while screens come and go. */
class BenchmarkRunner(private val application: SampleApplication) {
    val state = Watched(BenchmarkState())

    @Volatile
    private var cancelled = false

    fun start(request: BenchmarkRequest) {
        if (state.value.isRunning) return
        cancelled = false
        submit { finish(application.model.measure(request, ::showProgress) { cancelled }) }
    }

    /** A task of `edgex --device adb`, where instrumentation is not allowed: its answer is a file. */
    fun serve(task: HeadlessTask) {
        if (state.value.isRunning) return
        submit {
            application.model.release()
            try {
                ModelThread.run { task.execute(::showProgress) }
            } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
                task.fail(error)
                throw error
            }
            BenchmarkState()
        }
    }

    fun cancel() {
        cancelled = true
    }

    fun fail(error: Exception) = state.set(BenchmarkState(error = error.message))

    private fun submit(work: suspend () -> BenchmarkState) {
        state.set(BenchmarkState(isRunning = true))
        launch(work) { result ->
            state.set(result.getOrElse { if (it is CancelledException) BenchmarkState() else BenchmarkState(error = it.message ?: "$it") })
        }
    }

    private fun showProgress(stage: Stage, done: Int, total: Int) =
        state.set(BenchmarkState(isRunning = true, stage = stage, done = done, total = total))

    private fun finish(result: BenchmarkResult): BenchmarkState {
        val device = application.platform.describeDevice()
        val json = writeJson(Report.toJson(application.manifest, device, result))
        application.platform.reportFolder()?.let { ReportFile.write(it, result.runId, json) }
        return BenchmarkState(result = result, warnings = Report.warnings(device, result), json = json)
    }
}

/** The report as a file for `adb pull`: whole or not there, and named after the run that made it. */
object ReportFile {
    fun write(folder: File, runId: String, json: String): File {
        folder.listFiles { _, name -> name.startsWith(PREFIX) }?.forEach { it.delete() }
        val file = File(folder, "$PREFIX$runId.json")
        val part = File(folder, "${file.name}.part")
        part.writeText(json)
        check(part.renameTo(file)) { "$part cannot be renamed" }
        return file
    }

    private const val PREFIX = "report-"
}
