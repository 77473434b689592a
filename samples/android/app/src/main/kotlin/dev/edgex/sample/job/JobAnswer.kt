package dev.edgex.sample.job

import dev.edgex.model.engine.EngineException
import dev.edgex.model.measure.DeviceInfo
import dev.edgex.model.tensor.TensorException
import org.json.JSONException

/** What the app itself is, for whoever sends it jobs. */
data class AppInfo(
    val applicationId: String,
    val engine: String,
    val version: String,
    val flavor: String,
    val edgex: String,
    val backends: List<String>,
    val isDebuggable: Boolean,
)

/** The document `edgex.device-answer/1`, which `edgex --device adb` reads; or `edgex.device-error/1`. */
object JobAnswer {
    const val SCHEMA = "edgex.device-answer/1"
    const val ERROR_SCHEMA = "edgex.device-error/1"

    /** Version of tasks, job and answer together. */
    const val PROTOCOL = 1

    fun describe(runId: String, app: AppInfo): Map<String, Any?> =
        mapOf("schema" to SCHEMA, "run_id" to runId, "task" to Task.DESCRIBE.label, "app" to toJson(app))

    fun toJson(runId: String, task: Task, job: Job, app: AppInfo, device: DeviceInfo, result: JobResult): Map<String, Any?> = mapOf(
        "schema" to SCHEMA,
        "run_id" to runId,
        "task" to task.label,
        "app" to toJson(app),
        "model_sha256" to result.modelSha256,
        "threads" to job.threads.takeIf { it > 0 },
        "load_mode" to job.loadMode.label,
        "cold" to mapOf(
            "check" to result.cold.verifySeconds,
            "engine_import" to result.cold.librarySeconds,
            "program" to result.cold.load.program,
            "method" to result.cold.load.method,
            "first" to result.cold.firstSeconds,
            "peak_rss_bytes" to result.cold.peakRssBytes,
        ),
        "outputs" to result.outputs.map { steps -> steps.map { outputs -> outputs.map { it.asList() } } },
        "steps" to result.steps,
        "rounds" to result.measurement?.rounds.orEmpty().map { it.asList() },
        "warm_up" to mapOf(
            "runs" to (result.measurement?.warmUp?.runs ?: 0),
            "seconds" to (result.measurement?.warmUp?.seconds ?: 0.0),
            "settled" to result.measurement?.warmUp?.settled,
        ),
        "memory" to mapOf(
            "peak_rss_bytes" to result.memory.peakRssBytes,
            "pss_bytes" to result.memory.pssBytes,
            "native_heap_bytes" to result.memory.nativeHeapBytes,
        ),
        "before" to result.before.values + ("thermal_status" to result.before.thermalStatus),
        "after" to result.after.values + ("thermal_status" to result.after.thermalStatus),
        "trace" to mapOf("written" to (result.traceRefusal == null), "reason" to result.traceRefusal),
        "device" to mapOf(
            "model" to device.model,
            "soc" to device.soc,
            "abi" to device.abi,
            "cpu_features" to device.cpuFeatures,
            "cores" to device.cores,
            "memory_bytes" to device.memoryBytes,
            "android_api" to device.androidApi,
            "kernel" to device.kernel,
            "governor" to device.governor,
            "frequency_hz" to device.frequencyHz,
            "emulator" to device.isEmulator,
        ) + device.details,
    )

    /** [kindOf] says who refused; the names of classes do not survive the shrinking of a release build. */
    fun error(runId: String, error: Throwable): Map<String, Any?> = mapOf(
        "schema" to ERROR_SCHEMA,
        "run_id" to runId,
        "kind" to kindOf(error),
        "message" to (error.message ?: error.toString()),
    )

    private fun kindOf(error: Throwable): String = when {
        error is EngineException -> "engine"
        error is DigestException -> "digest"
        error is java.io.IOException && error.message.orEmpty().contains("ENOSPC") -> "space"
        error is java.io.IOException -> "files"
        error is IllegalArgumentException || error is JSONException || error is TensorException -> "request"
        else -> "defect"
    }

    private fun toJson(app: AppInfo) = mapOf(
        "application_id" to app.applicationId,
        "protocol" to PROTOCOL,
        "engine" to app.engine,
        app.engine to app.version,
        "flavor" to app.flavor,
        "edgex" to app.edgex,
        "backends" to app.backends,
        "debuggable" to app.isDebuggable,
    )
}
