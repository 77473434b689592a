package dev.edgex.sample

import android.content.res.Resources
import dev.edgex.model.measure.Comparison
import dev.edgex.model.measure.ParityReport
import dev.edgex.model.measure.Verdict

/** Words for how near this device's outputs are to eager PyTorch's. */
class ParityText(private val resources: Resources) {
    fun describe(report: ParityReport?): String {
        if (report == null) return resources.getString(R.string.parity_unknown)
        val cases = report.results.map { it.case }.distinct().size
        val head = resources.getQuantityString(if (report.passed) R.plurals.parity_passed else R.plurals.parity_failed, cases, cases)
        val figures = figures(report.maxAbsError, report.minSqnrDb, report.top1Agreement)
        val reasons = report.results.filter { it.comparison.verdict == Verdict.FAIL }
            .map { resources.getString(R.string.parity_reason, it.case, it.output, it.comparison.reason) }
        return (listOf(head, figures) + reasons.take(REASONS)).filter { it.isNotEmpty() }.joinToString("\n")
    }

    fun describe(comparison: Comparison): String {
        val verdict = resources.getString(
            when (comparison.verdict) {
                Verdict.PASS -> R.string.verdict_pass
                Verdict.FAIL -> R.string.verdict_fail
                Verdict.INCONCLUSIVE -> R.string.verdict_inconclusive
            },
        )
        val figures = figures(comparison.maxAbsError, comparison.sqnrDb, comparison.top1)
        return listOfNotNull(verdict, figures.takeIf { it.isNotEmpty() }, comparison.reason).joinToString("\n")
    }

    private fun figures(maxAbsError: Double?, sqnrDb: Double?, top1: Double?): String = listOfNotNull(
        maxAbsError?.let { resources.getString(R.string.max_error, formatFigure(it)) },
        sqnrDb?.let { resources.getString(R.string.sqnr, it) },
        top1?.let { resources.getString(R.string.top1, formatPercent(it)) },
    ).joinToString(" · ")

    private companion object {
        const val REASONS = 3
    }
}
