package dev.edgex.sample.job

/** What the app can be asked for without a screen. */
enum class Task(val label: String) {
    /** The app's own model, on its golden data. */
    BENCHMARK("benchmark"),

    /** What the app is; makes the folder for a job. */
    DESCRIBE("describe"),

    /** What `job.json` in that folder says. */
    JOB("job"),

    /** Load and first run of the same, once more. */
    COLD("cold"),
    ;

    companion object {
        /** Throws [IllegalArgumentException] where there is no such task. */
        fun parse(text: String?): Task = if (text == null) BENCHMARK else {
            requireNotNull(entries.firstOrNull { it.label == text }) {
                "task must be one of ${entries.joinToString { it.label }}, not \"$text\""
            }
        }
    }
}
