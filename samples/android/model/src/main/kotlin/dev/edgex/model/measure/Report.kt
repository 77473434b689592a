package dev.edgex.model.measure

import dev.edgex.model.ModelManifest
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.engine.LoadTimes

/** A reason to trust figures less; the codes are fixed, for tools. */
data class ReportWarning(val code: String, val text: String)

/** The device, as far as it matters for speed; null is unknown. */
data class DeviceInfo(
    val model: String,
    val soc: String?,
    val abi: String,
    val cpuFeatures: List<String>?,
    val cores: Int,
    val memoryBytes: Long?,
    val androidApi: Int,
    val androidRelease: String,
    val kernel: String,
    val governor: String?,
    val frequencyHz: Double?,
    val isEmulator: Boolean,
    val details: Map<String, Any?>,
)

/** What can change while measuring: heat, battery, clock speeds. Free form, taken before and after. */
data class DeviceState(val thermalStatus: Int?, val values: Map<String, Any?>)

/** Memory in bytes, read in a pass of its own. */
data class MemoryReading(val peakRssBytes: Long?, val pssBytes: Long?, val nativeHeapBytes: Long?)

/** Everything that one benchmark found. Times are in seconds. */
class BenchmarkResult(
    val runId: String,
    val settings: BenchmarkSettings,
    val loadMode: LoadMode,
    val threadsInEffect: Int?,
    val shapes: Map<String, IntArray>,
    val steps: Int,
    val verifySeconds: Double,
    val copySeconds: Double?,
    val engineSeconds: Double,
    val load: LoadTimes,
    val firstSeconds: Double,
    val measurement: Measurement,
    val parity: ParityReport,
    val memory: MemoryReading,
    val before: DeviceState,
    val after: DeviceState,
    val registeredBackends: List<String>,
    val etdumpRefusal: String?,
    val wallSeconds: Double,
    val isDebuggable: Boolean,
) {
    val summary: Summary = Statistics.summarize(measurement.rounds)
}

/** The document `edgex.profile/2` with `source: device`, which `edgex profile` and `edgex compare` read. */
object Report {
    const val SCHEMA = "edgex.profile/2"

    fun toJson(manifest: ModelManifest, device: DeviceInfo, result: BenchmarkResult): Map<String, Any?> {
        val first = mapOf(
            "check" to result.verifySeconds,
            "engine_import" to result.engineSeconds,
            "program" to result.load.program,
            "method" to result.load.method,
            "first" to result.firstSeconds,
        )
        return mapOf(
            "schema" to SCHEMA,
            "source" to "device",
            "run_id" to result.runId,
            "edgex_version" to manifest.versions.edgex,
            "artifact" to artifact(manifest),
            "host" to host(device),
            "settings" to settings(result),
            "executed_on" to executedOn(manifest),
            "threads" to result.threadsInEffect,
            "load_seconds" to first,
            "fresh" to listOf(first + ("peak_rss_bytes" to result.memory.peakRssBytes)),
            "steady" to steady(result),
            "throughput" to 1 / result.summary.mean,
            "memory" to mapOf(
                "peak_rss_bytes" to result.memory.peakRssBytes,
                "planned_arena_bytes" to manifest.model.plannedArenaBytes,
                "weights_bytes" to manifest.model.nativeBytes,
            ),
            "activity" to mapOf(
                "seconds" to result.wallSeconds,
                "other_cores" to null,
                "steal_share" to null,
                "involuntary_switches" to null,
                "load_average_before" to null,
                "load_average_after" to null,
            ),
            "trace" to null,
            "ops" to emptyList<Any>(),
            "warnings" to warnings(device, result).map { mapOf("code" to it.code, "text" to it.text) },
            "device" to device(device, result),
            "runtime" to mapOf(
                "library" to "${manifest.versions.library}:${manifest.versions.aar}",
                "exporter" to manifest.versions.exporter,
                "flavor" to manifest.versions.flavor,
                "backends" to result.registeredBackends,
                "load_mode" to result.loadMode.label,
                "copy_seconds" to result.copySeconds,
                "debuggable" to result.isDebuggable,
                "model_sha256" to manifest.model.sha256,
            ),
            "parity" to parity(result.parity),
            "etdump" to mapOf("available" to (result.etdumpRefusal == null), "reason" to result.etdumpRefusal),
        )
    }

    private fun artifact(manifest: ModelManifest) = mapOf(
        "name" to manifest.model.name,
        "target" to manifest.model.target,
        "precision" to manifest.model.precision,
        "digest" to manifest.model.digest,
        "bytes" to manifest.model.artifactBytes,
        "engine" to manifest.versions.engine,
        "versions" to mapOf(manifest.versions.library to manifest.versions.aar),
    )

    private fun host(device: DeviceInfo) = mapOf(
        "cpu" to (device.soc ?: device.model),
        "machine" to if (device.abi == "arm64-v8a") "aarch64" else device.abi,
        "isa" to device.cpuFeatures,
        "physical_cores" to device.cores,
        "logical_cores" to device.cores,
        "usable_cores" to device.cores,
        "cpu_quota" to null,
        "memory_bytes" to device.memoryBytes,
        "system" to "Android ${device.androidRelease}",
        "kernel" to device.kernel,
        "virtualised" to device.isEmulator,
        "governor" to device.governor,
        "frequency_hz" to device.frequencyHz,
        "python" to "none",
    )

    private fun settings(result: BenchmarkResult) = mapOf(
        "inputs" to "golden",
        "shapes" to result.shapes.mapValues { it.value.asList() },
        "steps" to result.steps,
        "threads_requested" to result.settings.threads.takeIf { it > 0 },
        "options" to emptyMap<String, Any>(),
        "warmup_requested" to result.settings.warmup,
        "warmup_runs" to result.measurement.warmUp.runs,
        "warmup_seconds" to result.measurement.warmUp.seconds,
        "warmup_settled" to result.measurement.warmUp.settled,
        "runs_requested" to result.settings.runs,
        "rounds" to result.measurement.rounds.size,
        "samples_per_round" to result.measurement.samplesPerRound,
        "calls_per_sample" to 1,
        "fresh_processes" to 1,
        "clock" to "System.nanoTime",
    )

    private fun steady(result: BenchmarkResult): Map<String, Any?> {
        val summary = result.summary
        return mapOf(
            "n" to summary.n,
            "min" to summary.min,
            "median" to summary.median,
            "median_ci95" to summary.medianCi95?.toList(),
            "mean" to summary.mean,
            "p90" to summary.p90,
            "p95" to summary.p95,
            "p99" to summary.p99,
            "mad" to summary.mad,
            "outlier_share" to summary.outlierShare,
            "raw_seconds" to result.measurement.rounds.flatMap { it.asList() },
            "round_lengths" to result.measurement.rounds.map { it.size },
        )
    }

    private fun executedOn(manifest: ModelManifest): String {
        val backends = manifest.model.backends.distinct()
        val portable = if ((manifest.model.portableOperators ?: 0) > 0 || backends.isEmpty()) listOf("portable") else emptyList()
        return "${manifest.versions.engine}: " + (backends + portable).joinToString()
    }

    private fun device(device: DeviceInfo, result: BenchmarkResult) = mapOf(
        "model" to device.model,
        "soc" to device.soc,
        "abi" to device.abi,
        "android_api" to device.androidApi,
        "emulator" to device.isEmulator,
        "pss_bytes" to result.memory.pssBytes,
        "native_heap_bytes" to result.memory.nativeHeapBytes,
        "before" to result.before.values + ("thermal_status" to result.before.thermalStatus),
        "after" to result.after.values + ("thermal_status" to result.after.thermalStatus),
    ) + device.details

    fun parity(report: ParityReport): Map<String, Any?> = mapOf(
        "passed" to report.passed,
        "max_abs_error" to report.maxAbsError,
        "min_sqnr_db" to report.minSqnrDb,
        "top1_agreement" to report.top1Agreement,
        "cases" to report.results.map {
            mapOf(
                "name" to it.case,
                "output" to it.output,
                "reference" to it.reference.label,
                "verdict" to it.comparison.verdict.label,
                "max_abs_error" to it.comparison.maxAbsError,
                "sqnr_db" to it.comparison.sqnrDb,
                "reference_max" to it.comparison.referenceMax,
                "top1" to it.comparison.top1,
                "reason" to it.comparison.reason,
            )
        },
    )

    fun warnings(device: DeviceInfo, result: BenchmarkResult): List<ReportWarning> = buildList {
        fun warn(code: String, text: String) = add(ReportWarning(code, text))
        val summary = result.summary
        val rounds = result.measurement.rounds
        if (result.isDebuggable) warn("debuggable-build", "a debuggable build was measured: install the release build")
        if (device.isEmulator) warn("emulator", "an emulator was measured: its times say nothing about a phone")
        if (summary.n < 20 || rounds.size < 6) {
            warn("few-samples", "${summary.n} samples in ${rounds.size} rounds: too few for intervals and percentiles")
        }
        if (result.measurement.warmUp.settled == false) {
            warn("warmup-did-not-settle", "the latency had not settled within 2 % after warming up")
        }
        val drift = drift(rounds)
        if (drift != null && kotlin.math.abs(drift) > 0.05) {
            val became = if (drift > 0) "slower" else "faster"
            warn("drift", "the last third of the runs was %.0f %% %s than the first".format(kotlin.math.abs(drift) * 100, became))
        }
        if (summary.mad > 0.05 * summary.median || summary.outlierShare > 0.05) {
            warn("noisy-machine", "the samples stray by more than 5 %")
        }
        val hottest = listOfNotNull(result.before.thermalStatus, result.after.thermalStatus).maxOrNull() ?: 0
        if (hottest > 0) warn("thermal", "the device was throttling because of heat (status $hottest of 6)")
        if (result.before.values["power_save"] == true) warn("power-save", "battery saver was on")
        if (result.before.values["screen_on"] == false) warn("screen-off", "the screen was off: clock speeds may be lower")
        if (!result.parity.passed) warn("parity", "the outputs on this device are not those of eager PyTorch")
    }

    /** How much slower the last third of the rounds was than the first; null where there are too few. */
    private fun drift(rounds: List<DoubleArray>): Double? {
        if (rounds.size < 12) return null
        fun medianOf(part: List<DoubleArray>) = Statistics.median(part.flatMap { it.asList() }.toDoubleArray().apply { sort() })
        val third = rounds.size / 3
        return medianOf(rounds.takeLast(third)) / medianOf(rounds.take(third)) - 1
    }
}
