package dev.edgex.sample.core

/** The golden values of a step, read from the assets. */
data class GoldenValues(val inputs: List<TensorData>, val outputs: List<TensorData>)

/** One output of one golden case, judged. */
data class GoldenResult(val case: String, val output: String, val comparison: Comparison)

/** What replaying the golden data showed: whether this device computes what eager PyTorch computed. */
data class ParityReport(val results: List<GoldenResult>) {
    private val comparisons get() = results.map { it.comparison }

    /** No output failed, and each passed at least once: the same rule as `edgex verify`. */
    val passed: Boolean
        get() = comparisons.none { it.verdict == Verdict.FAIL } &&
            results.groupBy { it.output }.values.all { group -> group.any { it.comparison.verdict == Verdict.PASS } }

    val maxAbsError: Double? get() = comparisons.mapNotNull { it.maxAbsError }.maxOrNull()

    val minSqnrDb: Double? get() = comparisons.mapNotNull { it.sqnrDb }.minOrNull()

    /** Mean over all outputs that have rows of several values. */
    val top1Agreement: Double? get() = comparisons.mapNotNull { it.top1 }.takeIf { it.isNotEmpty() }?.average()
}

/** Runs golden cases. A case begins on a freshly loaded model where the model keeps state. */
class GoldenReplay(private val manifest: AppManifest, private val read: (GoldenStep) -> GoldenValues) {
    fun run(engine: InferenceEngine, reload: () -> InferenceEngine, cancelled: () -> Boolean = { false }): ParityReport {
        val results = ArrayList<GoldenResult>()
        var current = engine
        for (case in manifest.golden) {
            if (manifest.model.isStateful) current = reload()
            for ((at, step) in case.steps.withIndex()) {
                if (cancelled()) throw CancelledException()
                val values = read(step)
                current.bind(values.inputs)
                current.run()
                val found = current.outputs()
                val name = if (case.steps.size > 1) "${case.name}, step $at" else case.name
                manifest.outputs.forEachIndexed { number, output ->
                    val comparison = Parity.compare(values.outputs[number], found[number], manifest.tolerance)
                    results += GoldenResult(name, output.spec.name, comparison)
                }
            }
        }
        return ParityReport(results)
    }
}
