package dev.edgex.model.measure

import dev.edgex.model.engine.LoadMode

/** A request that came from outside, as texts: what it may say is bounded, and it never names a file. */
data class BenchmarkRequest(val runId: String, val settings: BenchmarkSettings, val modelSha256: String?) {
    companion object {
        private val RUN_ID = Regex("[A-Za-z0-9-]{1,64}")
        private val SHA256 = Regex("[0-9a-f]{64}")

        /** Throws [IllegalArgumentException] that names the argument. */
        fun parse(argument: (String) -> String?): BenchmarkRequest {
            fun whole(name: String, range: IntRange): Int? = argument(name)?.let { text ->
                text.toIntOrNull()?.takeIf { it in range }
                    ?: throw IllegalArgumentException("$name must be a whole number in $range, not \"$text\"")
            }
            fun matching(name: String, pattern: Regex): String? = argument(name)?.also {
                require(pattern.matches(it)) { "$name must match $pattern" }
            }
            val defaults = BenchmarkSettings()
            val mode = argument("load_mode")
            return BenchmarkRequest(
                runId = matching("run_id", RUN_ID) ?: "manual",
                settings = BenchmarkSettings(
                    runs = whole("runs", BenchmarkSettings.RUNS) ?: defaults.runs,
                    warmup = whole("warmup", BenchmarkSettings.WARMUP),
                    threads = whole("threads", BenchmarkSettings.THREADS) ?: defaults.threads,
                    loadMode = mode?.let {
                        requireNotNull(LoadMode.entries.firstOrNull { it.label == mode }) {
                            "load_mode must be one of ${LoadMode.entries.joinToString { it.label }}, not \"$mode\""
                        }
                    },
                ),
                modelSha256 = matching("model_sha256", SHA256),
            )
        }
    }
}
