package dev.edgex.sample.job

import dev.edgex.model.JsonNode
import dev.edgex.model.engine.EngineException
import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.engine.LoadTimes
import dev.edgex.model.engine.LoadedEngine
import dev.edgex.model.measure.Benchmark
import dev.edgex.model.measure.DeviceInfo
import dev.edgex.model.measure.DeviceState
import dev.edgex.model.measure.MemoryReading
import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.writeJson
import java.io.ByteArrayInputStream
import java.io.File
import java.util.Base64
import java.util.zip.InflaterInputStream
import org.json.JSONException
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class JobTest {
    private val digest = "a".repeat(64)

    private fun text(runs: String = "6", stateful: Boolean = false, dtype: String = "float32") = """
        {"format": "edgex.device-job/1", "run_id": "r1", "model": {"sha256": "$digest", "bytes": 9, "stateful": $stateful},
         "inputs": [{"name": "x", "dtype": "float32"}], "outputs": [{"name": "y", "dtype": "$dtype"}],
         "sequences": [[[[2, 3]], [[1, 3]]], [[[1, 3]]]],
         "threads": 2, "warmup": 4, "runs": $runs, "load_mode": "mmap", "trace": true}
    """

    /** Doubles its inputs. */
    private class Doubling : InferenceEngine {
        private var inputs = emptyList<TensorData>()

        override fun bind(inputs: List<TensorData>) {
            this.inputs = inputs
        }

        override fun run() = Unit

        override fun outputs() = inputs.map { input ->
            TensorData.allocate(input.dtype, input.shape).apply { for (at in 0 until size) this[at] = input[at] * 2 }
        }

        override fun close() = Unit
    }

    /** Doubles, or gives outputs of these [types]; the inputs are 1, 2, 3 … whatever file is asked for. */
    private class Fake(private val found: String, private val types: List<DType>? = null) : JobPlatform {
        val log = ArrayList<String>()
        val written = LinkedHashMap<String, TensorData>()

        override fun hashModel() = found

        override fun loadLibrary() = 0.125

        override fun readInput(file: String, dtype: DType, shape: IntArray): TensorData {
            log += file
            return TensorData.allocate(dtype, shape).apply { for (at in 0 until size) this[at] = at + 1.0 }
        }

        override fun writeOutput(file: String, data: TensorData) {
            written[file] = data
        }

        override fun readState() = DeviceState(thermalStatus = 1, values = mapOf("screen_on" to true))

        override fun readMemory() = MemoryReading(peakRssBytes = 1000, pssBytes = 900, nativeHeapBytes = 800)

        override fun writeTrace(engine: InferenceEngine) = "not in this build"

        override fun load(threads: Int, loadMode: LoadMode): LoadedEngine {
            log += "load $threads ${loadMode.label}"
            val engine = Doubling()
            return LoadedEngine(if (types == null) engine else Typed(engine, types), LoadTimes(program = 0.01, method = 0.02))
        }

        private class Typed(inner: InferenceEngine, private val types: List<DType>) : InferenceEngine by inner {
            override fun outputs() = types.map { TensorData.allocate(it, intArrayOf(1)) }
        }
    }

    @Test
    fun `a job gives samples and the outputs of every sequence`() {
        val platform = Fake(digest)
        val result = JobRun(Job.parse(text()), platform).execute()
        assertEquals(6, result.measurement!!.rounds.sumOf { it.size })
        assertEquals(4, result.measurement!!.warmUp.runs)
        assertEquals(listOf("out-0-0-0.bin", "out-0-1-0.bin", "out-1-0-0.bin"), platform.written.keys.toList())
        assertArrayEquals(intArrayOf(2, 3), result.outputs[0][0][0])
        assertEquals(12.0, platform.written.getValue("out-0-0-0.bin")[5], 0.0)
        assertEquals(listOf("load 2 mmap"), platform.log.filter { it.startsWith("load") })
        assertEquals("not in this build", result.traceRefusal)
    }

    @Test
    fun `a model with state begins anew for each sequence`() {
        val platform = Fake(digest)
        JobRun(Job.parse(text(runs = "0", stateful = true)), platform).execute()
        assertEquals(3, platform.log.count { it.startsWith("load") })
    }

    @Test
    fun `a cold run ends after the first`() {
        val platform = Fake(digest)
        val result = JobRun(Job.parse(text()), platform, coldOnly = true).execute()
        assertNull(result.measurement)
        assertTrue(platform.written.isEmpty() && result.outputs.isEmpty())
        assertEquals(1000L, result.cold.peakRssBytes)
    }

    @Test
    fun `another model, or outputs of another type, are refused`() {
        assertThrows(DigestException::class.java) { JobRun(Job.parse(text()), Fake("b".repeat(64))).execute() }
        assertThrows(EngineException::class.java) { JobRun(Job.parse(text(dtype = "int8")), Fake(digest)).execute() }
        assertThrows(EngineException::class.java) { JobRun(Job.parse(text()), Fake(digest, listOf(DType.INT64))).execute() }
    }

    @Test
    fun `about three seconds are measured where no number is given`() {
        var now = 0L
        // Each look at the clock takes 50 ms, so each run does.
        val found = Benchmark(call = {}, clock = { (now + 50_000_000L).also { now = it } }).measure(runs = null, warmup = 0)
        assertEquals(60, found.rounds.sumOf { it.size })
        val slow = Benchmark(call = {}, clock = { (now + 2_000_000_000L).also { now = it } }).measure(runs = null, warmup = 0)
        assertEquals(20, slow.rounds.sumOf { it.size })
    }

    @Test
    fun `what is wrong with a job is named`() {
        val wrong = listOf(
            text(runs = "100001"), text(runs = "\"6\""), text().replace("mmap", "net"), text().replace(digest, "../$digest"),
            text().replace("edgex.device-job/1", "edgex.device-job/2"), text().replace("[[[2, 3]], [[1, 3]]]", "[]"),
            text().replace("[[2, 3]]", "[[2, 3], [1]]"), text().replace("[[2, 3]]", "[[-2, 3]]"),
        )
        for (json in wrong) assertThrows(json, JSONException::class.java) { Job.parse(json) }
    }

    @Test
    fun `tasks are those that exist`() {
        assertEquals(Task.BENCHMARK, Task.parse(null))
        assertEquals(Task.COLD, Task.parse("cold"))
        assertThrows(IllegalArgumentException::class.java) { Task.parse("format") }
    }

    @Test
    fun `an answer says all that edgex reads`() {
        val app = AppInfo("dev.edgex.app.x", "executorch", "1.5.1", "xnnpack", "0.1.0", listOf("XnnpackBackend"), isDebuggable = false)
        val device = DeviceInfo(
            "maker model", "soc", "arm64-v8a", listOf("asimd"), 8, 8_000_000_000, 36, "16", "6.6", null, null, false, emptyMap(),
        )
        // The check of the whole tool brings a job that edgex wrote, and reads the answer with edgex.
        val folder = System.getProperty("edgex.job")?.let { File(it) }
        val job = Job.parse(folder?.let { File(it, "job.json").readText() } ?: text())
        val result = JobRun(job, Fake(job.modelSha256, job.outputs.map { it.dtype })).execute()
        val json = writeJson(JobAnswer.toJson(job.runId, Task.JOB, job, app, device, result))
        val node = JsonNode.parse(json, "answer")
        assertEquals(job.runId, node["run_id"].text())
        assertEquals(job.modelSha256, node["model_sha256"].text())
        assertEquals("XnnpackBackend", node["app"]["backends"].items().single().text())
        folder?.let { File(it, "answer.json").writeText(json) }
        val kinds = listOf(EngineException("e"), DigestException("d"), java.io.IOException("write failed: ENOSPC (No space)"))
            .map { JobAnswer.error("r", it)["kind"] }
        assertEquals(listOf("engine", "digest", "space"), kinds)
    }

    @Test
    fun `a report survives its way through text`() {
        val json = writeJson(mapOf("samples" to List(3000) { it / 7.0 }))
        val chunks = ReportCodec.encode(json, chunkChars = 1000)
        assertTrue(chunks.size > 3 && chunks.all { it.length <= 1000 })
        val packed = Base64.getDecoder().decode(chunks.joinToString(""))
        assertEquals(json, InflaterInputStream(ByteArrayInputStream(packed)).readBytes().decodeToString())
    }
}
