package dev.edgex.model.measure

import dev.edgex.model.GoldenStep
import dev.edgex.model.ModelManifest
import dev.edgex.model.Reference
import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.tensor.TensorData

/** The golden values of a step, read from the assets. */
data class GoldenValues(val inputs: List<TensorData>, val outputs: List<TensorData>)

/** One output of one golden case, judged. */
data class GoldenResult(val case: String, val output: String, val reference: Reference, val comparison: Comparison)

/** What replaying the golden data showed: whether this device computes what PyTorch computed. */
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

/**
 * Runs golden cases. A case begins on a freshly loaded model where the model keeps state, and is held to the tolerance of
 * its own reference.
 */
class GoldenReplay(private val manifest: ModelManifest, private val read: (GoldenStep) -> GoldenValues) {
    fun run(engine: InferenceEngine, reload: () -> InferenceEngine, cancelled: () -> Boolean = { false }): ParityReport {
        val results = ArrayList<GoldenResult>()
        val ordinary = ordinaryRms()
        var current = engine
        for (case in manifest.golden) {
            if (manifest.model.isStateful) current = reload()
            for ((at, step) in case.steps.withIndex()) {
                if (cancelled()) throw CancelledException()
                val values = read(step)
                current.bind(values.inputs)
                current.run()
                val found = current.outputs()
                val isQuantized = case.reference == Reference.QUANTIZED && manifest.quantizedTolerance != null
                val name = if (case.steps.size > 1) "${case.name}, step $at" else case.name
                manifest.outputs.forEachIndexed { number, output ->
                    val floor = if (isQuantized) ordinary[number] else 0.0
                    val comparison = Parity.compare(values.outputs[number], found[number], manifest.toleranceOf(case), floor)
                    results += GoldenResult(name, output.spec.name, case.reference, comparison)
                }
            }
        }
        return ParityReport(results)
    }

    /** The root mean square of each output of the example, which is the first case; only where one is needed. */
    private fun ordinaryRms(): List<Double> {
        if (manifest.quantizedTolerance == null) return emptyList()
        return read(manifest.golden.first().steps.first()).outputs.map(Parity::rootMeanSquare)
    }
}
