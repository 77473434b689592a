package dev.edgex.model.measure

import dev.edgex.model.tensor.TensorData
import kotlin.math.abs
import kotlin.math.log10
import kotlin.math.max
import kotlin.math.min
import kotlin.math.pow
import kotlin.math.sqrt

enum class Verdict(val label: String) { PASS("pass"), FAIL("fail"), INCONCLUSIVE("inconclusive") }

/**
 * How far an output may be from PyTorch's; [atol] and [rtol] are null where only the ratio counts. [minEqual] is the share
 * of the elements of whole numbers that must be equal.
 */
data class Tolerance(val minSqnrDb: Double, val atol: Double?, val rtol: Double?, val minEqual: Double = 1.0) {
    fun maxAbsAllowed(referenceMax: Double): Double? =
        if (atol == null && rtol == null) null else max(atol ?: 0.0, (rtol ?: 0.0) * referenceMax)
}

/**
 * One output compared with eager PyTorch's.
 *
 * [top1] is the share of rows whose largest value is at the same place, null where the output has no rows of several.
 */
data class Comparison(
    val verdict: Verdict,
    val maxAbsError: Double?,
    val sqnrDb: Double?,
    val referenceMax: Double?,
    val top1: Double?,
    val reason: String?,
)

/** The judgement of `edgex verify`, on the device. */
object Parity {
    private const val EXACT_SQNR_DB = 300.0
    private const val VACUOUS_RMS = 1e-6

    /** [floorRms] is the output's ordinary root mean square: the steps of a quantized output do not shrink with its values. */
    fun compare(reference: TensorData, actual: TensorData, tolerance: Tolerance, floorRms: Double = 0.0): Comparison {
        if (!reference.shape.contentEquals(actual.shape)) return failed("shape ${shown(actual)} instead of ${shown(reference)}")
        if (reference.dtype.isFloat != actual.dtype.isFloat) {
            return failed("dtype ${actual.dtype.label} instead of ${reference.dtype.label}")
        }
        val seen = look(reference, actual, floorRms)
        val top1 = top1Agreement(reference, actual)
        fun judged(verdict: Verdict, reason: String? = null, sqnr: Double? = seen.sqnrDb) =
            Comparison(verdict, seen.maxAbsError, sqnr, seen.referenceMax, top1, reason)
        if (!reference.dtype.isFloat) {
            if (reference.dtype != actual.dtype) {
                return judged(Verdict.FAIL, "dtype ${actual.dtype.label} instead of ${reference.dtype.label}", null)
            }
            return when {
                seen.different > (1.0 - tolerance.minEqual) * reference.size ->
                    judged(Verdict.FAIL, "${seen.different} of ${reference.size} values differ", null)
                seen.constant -> judged(Verdict.INCONCLUSIVE, "the expected output is constant", null)
                else -> judged(Verdict.PASS, null, null)
            }
        }
        if (seen.misplaced > 0) return judged(Verdict.FAIL, "NaN or Inf at other places: ${seen.misplaced}")
        val limit = tolerance.maxAbsAllowed(seen.referenceMax)
        if (seen.rms < VACUOUS_RMS || seen.constant) {
            // A vacuous reference never excuses a wrong output.
            val allowed = if (floorRms > 0) floorRms * 10.0.pow(-tolerance.minSqnrDb / 20) else 1e-3 * max(1.0, seen.referenceMax)
            if (seen.maxAbsError > max(limit ?: 0.0, allowed)) {
                return judged(Verdict.FAIL, "the expected output is constant, this one is not", null)
            }
            return judged(Verdict.INCONCLUSIVE, "the expected output is constant or near zero", null)
        }
        return when {
            seen.sqnrDb < tolerance.minSqnrDb ->
                judged(Verdict.FAIL, "SQNR %.1f dB is below %.0f dB".format(seen.sqnrDb, tolerance.minSqnrDb))
            limit != null && seen.maxAbsError > limit ->
                judged(Verdict.FAIL, "max error %.2g is above %.2g".format(seen.maxAbsError, limit))
            else -> judged(Verdict.PASS)
        }
    }

    /** Root mean square of the finite values of a float tensor; 0 for others. */
    fun rootMeanSquare(tensor: TensorData): Double {
        if (!tensor.dtype.isFloat) return 0.0
        val finite = (0 until tensor.size).map { tensor[it] }.filter { it.isFinite() }
        return if (finite.isEmpty()) 0.0 else sqrt(finite.sumOf { it * it } / finite.size)
    }

    private class Seen(
        val maxAbsError: Double,
        val referenceMax: Double,
        val sqnrDb: Double,
        val rms: Double,
        val constant: Boolean,
        val different: Int,
        val misplaced: Int,
    )

    private fun look(reference: TensorData, actual: TensorData, floorRms: Double): Seen {
        var maxError = 0.0
        var referenceMax = 0.0
        var signal = 0.0
        var noise = 0.0
        var finite = 0
        var different = 0
        var misplaced = 0
        var constant = true
        var firstFinite = Double.NaN
        for (index in 0 until reference.size) {
            val expected = reference[index]
            val found = actual[index]
            if (!expected.isFinite() || !found.isFinite()) {
                // NaN equals NaN here; Inf must have its sign.
                if (expected.compareTo(found) != 0) misplaced++
                continue
            }
            if (finite++ == 0) firstFinite = expected
            if (expected != firstFinite) constant = false
            val error = abs(expected - found)
            if (error > 0) different++
            maxError = max(maxError, error)
            referenceMax = max(referenceMax, abs(expected))
            signal += expected * expected
            noise += error * error
        }
        val power = max(signal, floorRms * floorRms * finite)
        val sqnr = when {
            noise == 0.0 -> EXACT_SQNR_DB
            power == 0.0 -> -EXACT_SQNR_DB
            else -> min(10 * log10(power / noise), EXACT_SQNR_DB)
        }
        val rms = if (finite > 0) sqrt(signal / finite) else 0.0
        return Seen(maxError, referenceMax, sqnr, rms, constant && finite > 1, different, misplaced)
    }

    private fun top1Agreement(reference: TensorData, actual: TensorData): Double? {
        val width = reference.shape.lastOrNull() ?: return null
        if (width < 2 || reference.size == 0) return null
        val rows = reference.size / width
        val agreeing = (0 until rows).count { row -> largestAt(reference, row, width) == largestAt(actual, row, width) }
        return agreeing.toDouble() / rows
    }

    private fun largestAt(tensor: TensorData, row: Int, width: Int): Int {
        var best = 0
        for (at in 1 until width) if (tensor[row * width + at] > tensor[row * width + best]) best = at
        return best
    }

    private fun failed(reason: String) = Comparison(Verdict.FAIL, null, null, null, null, reason)

    private fun shown(tensor: TensorData) = "[${tensor.shape.joinToString()}]"
}
