package dev.edgex.sample

import dev.edgex.sample.core.BenchmarkRequest
import dev.edgex.sample.core.BenchmarkResult
import dev.edgex.sample.core.BenchmarkRun
import dev.edgex.sample.core.CancelledException
import dev.edgex.sample.core.Json
import dev.edgex.sample.core.Report
import dev.edgex.sample.core.ReportWarning
import dev.edgex.sample.core.Stage
import java.io.File
import java.util.concurrent.ExecutorService

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

/** Runs the benchmark on the worker thread; it goes on while screens come and go. */
class BenchmarkRunner(private val application: SampleApplication, private val worker: ExecutorService) {
    val state = Watched(BenchmarkState())

    @Volatile
    private var cancelled = false

    fun start(request: BenchmarkRequest) {
        if (state.value.isRunning) return
        cancelled = false
        state.set(BenchmarkState(isRunning = true))
        worker.execute {
            val ended = try {
                // Two modules would share one thread pool, which a new number of threads replaces.
                application.model.release()
                finish(execute(request))
            } catch (_: CancelledException) {
                BenchmarkState()
            } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
                BenchmarkState(error = error.message ?: error.toString())
            }
            state.set(ended)
        }
    }

    /** A task of `edgex --device adb`, where instrumentation is not allowed: its answer is a file. */
    fun serve(task: HeadlessTask) {
        if (state.value.isRunning) return
        state.set(BenchmarkState(isRunning = true))
        worker.execute {
            val ended = try {
                application.model.release()
                task.execute(::showProgress)
                BenchmarkState()
            } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
                task.fail(error)
                BenchmarkState(error = error.message ?: error.toString())
            }
            state.set(ended)
        }
    }

    fun cancel() {
        cancelled = true
    }

    fun fail(error: Exception) = state.set(BenchmarkState(error = error.message))

    private fun execute(request: BenchmarkRequest): BenchmarkResult {
        val run = BenchmarkRun(
            manifest = application.manifest,
            platform = application.platform,
            progress = ::showProgress,
            cancelled = { cancelled },
        )
        return run.execute(request)
    }

    private fun showProgress(stage: Stage, done: Int, total: Int) =
        state.set(BenchmarkState(isRunning = true, stage = stage, done = done, total = total))

    private fun finish(result: BenchmarkResult): BenchmarkState {
        val device = application.platform.describeDevice()
        val json = Json.write(Report.toJson(application.manifest, device, result))
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
