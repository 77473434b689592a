package dev.edgex.model.measure

import dev.edgex.model.FakePlatform
import dev.edgex.model.ModelManifest
import dev.edgex.model.OutputReading
import dev.edgex.model.Reference
import dev.edgex.model.Samples
import dev.edgex.model.Samples.tensor
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.tensor.DType
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test

class ParityTest {
    private val tolerance = Tolerance(80.0, 1e-4, 1e-4)
    private val reference = tensor(1.0, 2.0, 4.0, 3.0, 2.0, 1.0, shape = intArrayOf(2, 3))

    private fun compare(vararg values: Double) = Parity.compare(reference, tensor(*values, shape = intArrayOf(2, 3)), tolerance)

    @Test
    fun `equal outputs pass`() {
        val found = compare(1.0, 2.0, 4.0, 3.0, 2.0, 1.0)
        assertEquals(Verdict.PASS, found.verdict)
        assertEquals(0.0, found.maxAbsError!!, 0.0)
        assertEquals(300.0, found.sqnrDb!!, 0.0)
        assertEquals(1.0, found.top1!!, 0.0)
    }

    @Test
    fun `an error beyond the tolerance fails and is measured`() {
        val found = compare(1.0, 2.0, 4.0, 1.0, 2.0, 3.0)
        assertEquals(Verdict.FAIL, found.verdict)
        assertEquals(2.0, found.maxAbsError!!, 0.0)
        assertEquals(0.5, found.top1!!, 0.0)
        assertEquals(10 * Math.log10(35 / 8.0), found.sqnrDb!!, 1e-9)
    }

    @Test
    fun `a small error passes`() {
        assertEquals(Verdict.PASS, compare(1.00001, 2.0, 4.0, 3.0, 2.0, 1.0).verdict)
        assertEquals(Verdict.FAIL, compare(1.01, 2.0, 4.0, 3.0, 2.0, 1.0).verdict)
    }

    @Test
    fun `NaN must be at the same places`() {
        val found = compare(Double.NaN, 2.0, 4.0, 3.0, 2.0, 1.0)
        assertEquals(Verdict.FAIL, found.verdict)
        assertTrue(found.reason!!.contains("NaN"))
        val same = Parity.compare(tensor(Double.NaN, 1.0, 2.0), tensor(Double.NaN, 1.0, 2.0), tolerance)
        assertEquals(Verdict.PASS, same.verdict)
        val infinity = Double.POSITIVE_INFINITY
        val signs = Parity.compare(tensor(infinity, 1.0, 2.0), tensor(-infinity, 1.0, 2.0), tolerance)
        assertEquals(Verdict.FAIL, signs.verdict)
    }

    @Test
    fun `a constant reference proves nothing and excuses nothing`() {
        assertEquals(Verdict.INCONCLUSIVE, Parity.compare(tensor(0.0, 0.0), tensor(0.0, 0.0), tolerance).verdict)
        assertEquals(Verdict.INCONCLUSIVE, Parity.compare(tensor(3.0, 3.0), tensor(3.0, 3.0), tolerance).verdict)
        assertEquals(Verdict.FAIL, Parity.compare(tensor(0.0, 0.0), tensor(0.0, 1.0), tolerance).verdict)
    }

    @Test
    fun `whole numbers must be equal`() {
        val one = tensor(1.0, 2.0, dtype = DType.INT64)
        assertEquals(Verdict.PASS, Parity.compare(one, tensor(1.0, 2.0, dtype = DType.INT64), tolerance).verdict)
        assertEquals(Verdict.FAIL, Parity.compare(one, tensor(1.0, 3.0, dtype = DType.INT64), tolerance).verdict)
        assertEquals(Verdict.FAIL, Parity.compare(one, tensor(1.0, 2.0, dtype = DType.INT32), tolerance).verdict)
    }

    @Test
    fun `another shape or kind fails`() {
        assertEquals(Verdict.FAIL, Parity.compare(reference, tensor(1.0), tolerance).verdict)
        val found = Parity.compare(tensor(1.0, 2.0), tensor(1.0, 2.0, dtype = DType.INT32), tolerance)
        assertEquals(Verdict.FAIL, found.verdict)
        assertNull(found.maxAbsError)
    }

    @Test
    fun `the golden data are replayed, each sequence on a fresh model`() {
        val platform = FakePlatform(stateful = true)
        val manifest = Samples.manifest(stateful = true)
        val replay = GoldenReplay(manifest, platform::readGolden)
        val report = replay.run(platform.load(0, LoadMode.MMAP).engine, { platform.load(0, LoadMode.MMAP).engine })
        assertTrue(report.passed)
        assertEquals(3, report.results.size)
        assertEquals(3, platform.loads)
        assertEquals("row, step 1", report.results.last().case)
    }

    /** An error of 0.01 is 7 dB beside values of 0.02, and 56 dB beside the ordinary ones of 4.9. */
    @Test
    fun `errors of small quantized outputs are measured against ordinary ones`() {
        val quantized = Tolerance(15.0, null, null, minEqual = 0.5)
        val small = tensor(0.02, -0.02, 0.01)
        val found = tensor(0.03, -0.01, 0.01)
        assertEquals(Verdict.FAIL, Parity.compare(small, found, quantized).verdict)
        assertEquals(Verdict.PASS, Parity.compare(small, found, quantized, floorRms = 4.9).verdict)
        assertEquals(Verdict.FAIL, Parity.compare(small, tensor(2.0, 2.0, 2.0), quantized, floorRms = 4.9).verdict)
        val zeros = tensor(0.0, 0.0)
        assertEquals(Verdict.INCONCLUSIVE, Parity.compare(zeros, tensor(0.5, 0.0), quantized, floorRms = 4.9).verdict)
        assertEquals(Verdict.FAIL, Parity.compare(zeros, tensor(0.9, 0.0), quantized, floorRms = 4.9).verdict)
        assertEquals(5.0, Parity.rootMeanSquare(tensor(3.0, Double.NaN, Math.sqrt(41.0))), 1e-6)
        val one = tensor(1.0, 2.0, dtype = DType.INT64)
        assertEquals(Verdict.PASS, Parity.compare(one, tensor(1.0, 3.0, dtype = DType.INT64), quantized).verdict)
        assertEquals(Verdict.FAIL, Parity.compare(one, tensor(2.0, 3.0, dtype = DType.INT64), quantized).verdict)
    }

    /** Off by 0.5, which is 20 dB: a tolerance of 15 lets it pass, one of 80 does not. */
    @Test
    fun `each case is held to the tolerance of its own reference`() {
        val text = Samples.text()
            .replace(
                "\"quantized_tolerance\": null",
                "\"quantized_tolerance\": {\"min_sqnr_db\": 15.0, \"atol\": null, \"rtol\": null, \"min_equal\": 0.9}",
            )
            .replace("\"row\", \"reference\": \"eager\"", "\"row\", \"reference\": \"quantized\"")
        val platform = FakePlatform(error = 0.5)
        val engine = platform.load(0, LoadMode.MMAP).engine
        val results = GoldenReplay(ModelManifest.parse(text), platform::readGolden).run(engine, { engine }).results
        assertEquals(listOf(Reference.EAGER, Reference.QUANTIZED, Reference.QUANTIZED), results.map { it.reference })
        assertEquals(listOf(Verdict.FAIL, Verdict.PASS, Verdict.PASS), results.map { it.comparison.verdict })

        val strict = text.replace("\"quantized\", \"min_sqnr_db\": null", "\"quantized\", \"min_sqnr_db\": 30.0")
        val judged = GoldenReplay(ModelManifest.parse(strict), platform::readGolden).run(engine, { engine }).results
        assertEquals(List(3) { Verdict.FAIL }, judged.map { it.comparison.verdict })
    }

    @Test
    fun `a device that computes something else does not pass`() {
        val platform = FakePlatform(error = 0.5)
        val replay = GoldenReplay(Samples.manifest(), platform::readGolden)
        val engine = platform.load(0, LoadMode.MMAP).engine
        val report = replay.run(engine, { engine })
        assertTrue(!report.passed)
        assertEquals(0.5, report.maxAbsError!!, 1e-6)
        assertEquals(1.0, report.top1Agreement!!, 0.0)
    }

    @Test
    fun `guesses are ordered and add up`() {
        val guesses = OutputReading.topGuesses(tensor(1.0, 3.0, 2.0, shape = intArrayOf(1, 3)), 0, listOf("a", "b"), true, 3)
        assertEquals(listOf("b", "class 2", "a"), guesses.map { it.label })
        assertEquals(1.0, guesses.sumOf { it.probability }, 1e-12)
        val summary = OutputReading.summarize(tensor(1.0, Double.NaN, 3.0))
        assertEquals(listOf(1.0, 3.0, 2.0, 1.0), listOf(summary.min, summary.max, summary.mean, summary.notFinite.toDouble()))
        assertNull(OutputReading.summarize(tensor(Double.NaN)).mean)
    }
}
