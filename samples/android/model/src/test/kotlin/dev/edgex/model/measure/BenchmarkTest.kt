package dev.edgex.model.measure

import dev.edgex.model.FakePlatform
import dev.edgex.model.JsonNode
import dev.edgex.model.Samples
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.writeJson
import java.io.File
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class BenchmarkTest {
    /** Each look at the clock takes a millisecond, so each run does. */
    private class Clock : () -> Long {
        private var now = 0L

        override fun invoke(): Long = (now + 1_000_000).also { now = it }
    }

    private val device = DeviceInfo(
        "maker model", "soc", "arm64-v8a", listOf("asimd", "asimddp"), 8, 8_000_000_000, 36, "16", "6.6", "schedutil", 1.8e9, false,
        mapOf("fingerprint" to "f"),
    )

    @Test
    fun `every sample is kept, in rounds`() {
        val found = Benchmark(call = {}, clock = Clock()).measure(BenchmarkSettings(runs = 45, warmup = 3))
        assertEquals(20, found.rounds.size)
        assertEquals(45, found.rounds.sumOf { it.size })
        assertTrue(found.rounds.all { round -> round.all { it == 0.001 } })
        assertEquals(WarmUp(3, found.warmUp.seconds, null), found.warmUp)
        assertEquals(listOf(1), Benchmark.split(1))
        assertEquals(List(11) { 3 } + List(9) { 2 }, Benchmark.split(51))
    }

    @Test
    fun `warming up ends when two windows agree`() {
        val warmUp = Benchmark(call = {}, clock = Clock()).measure(BenchmarkSettings(runs = 1)).warmUp
        assertEquals(20, warmUp.runs)
        assertEquals(true, warmUp.settled)
    }

    @Test
    fun `state is reset after each sequence and steps come in order`() {
        val seen = ArrayList<Int>()
        var resets = 0
        Benchmark(call = {}, prepare = { seen += it }, steps = 3, reset = { resets++ }, clock = Clock())
            .measure(BenchmarkSettings(runs = 7, warmup = 0))
        assertEquals(listOf(0, 1, 2, 0, 1, 2, 0), seen)
        assertEquals(2, resets)
    }

    @Test
    fun `it can be cancelled`() {
        assertThrows(CancelledException::class.java) {
            Benchmark(call = {}, clock = Clock(), cancelled = { true }).measure(BenchmarkSettings())
        }
    }

    @Test
    fun `figures are NumPy's`() {
        val sorted = DoubleArray(10) { it.toDouble() }
        assertEquals(8.1, Statistics.percentile(sorted, 90.0), 1e-12)
        val summary = Statistics.summarize(List(10) { doubleArrayOf(it + 1.0, it + 1.0) })
        assertEquals(5.5, summary.median, 0.0)
        assertEquals(2.5, summary.mad, 0.0)
        assertNull(summary.p99)
        val (low, high) = summary.medianCi95!!
        assertTrue("$low $high", low >= 1 && low < 5.5 && high > 5.5 && high <= 10)
        assertNull(Statistics.summarize(List(5) { doubleArrayOf(1.0) }).medianCi95)
        assertEquals(20, Statistics.histogram(DoubleArray(20) { it.toDouble() }, 4).sum())
    }

    @Test
    fun `requests are bounded`() {
        fun parse(vararg entries: Pair<String, String>) = BenchmarkRequest.parse(mapOf(*entries)::get)
        val request = parse("runs" to "7", "threads" to "2", "load_mode" to "file", "run_id" to "a-1")
        assertEquals(BenchmarkRequest("a-1", BenchmarkSettings(7, null, 2, LoadMode.FILE), null), request)
        val wrong = listOf("runs" to "0", "runs" to "x", "threads" to "99", "load_mode" to "net", "run_id" to "../a", "model_sha256" to "1")
        for (entry in wrong) assertThrows("$entry", IllegalArgumentException::class.java) { parse(entry) }
    }

    @Test
    fun `a report has been through all stages`() {
        val stages = ArrayList<Stage>()
        val platform = FakePlatform()
        val run = BenchmarkRun(Samples.manifest(), platform, { stage, _, _ -> stages += stage }, clock = Clock())
        val result = run.execute(BenchmarkRequest("run-1", BenchmarkSettings(runs = 40), null))
        assertEquals(Stage.entries.toSet(), stages.toSet())
        assertEquals(platform.loads, platform.closed)
        assertTrue(result.parity.passed)
        val json = writeJson(Report.toJson(Samples.manifest(), device, result))
        val node = JsonNode.parse(json, "report")
        assertEquals("device", node["source"].text())
        assertEquals(40, node["steady"]["raw_seconds"].items().size)
        assertEquals(0.001, node["steady"]["median"].double(), 0.0)
        assertEquals(emptyList<JsonNode>(), node["warnings"].items())
        // The test of the whole tool reads it with the reader of `edgex profile`.
        System.getProperty("edgex.report")?.let { File(it).writeText(json) }
    }

    @Test
    fun `a model with state runs within its limits`() {
        val platform = FakePlatform(stateful = true)
        val run = BenchmarkRun(Samples.manifest(stateful = true), platform, clock = Clock())
        val result = run.execute(BenchmarkRequest("run-2", BenchmarkSettings(runs = 9, warmup = 3), null))
        assertEquals(2, result.steps)
        assertEquals(platform.loads, platform.closed)
        assertTrue(result.parity.passed)
    }

    @Test
    fun `another model than the one asked for is refused`() {
        val run = BenchmarkRun(Samples.manifest(), FakePlatform())
        assertThrows(IllegalArgumentException::class.java) {
            run.execute(BenchmarkRequest("run-3", BenchmarkSettings(), "b".repeat(64)))
        }
    }

    @Test
    fun `what speaks against the figures is said`() {
        val run = BenchmarkRun(Samples.manifest(), FakePlatform(error = 1.0), clock = Clock())
        val result = run.execute(BenchmarkRequest("run-4", BenchmarkSettings(runs = 5, warmup = 0), null))
        val codes = Report.warnings(device.copy(isEmulator = true), result).map { it.code }
        assertEquals(listOf("emulator", "few-samples", "parity"), codes)
    }
}
