package dev.edgex.model

import dev.edgex.model.measure.BenchmarkSettings
import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorException
import dev.edgex.model.tensor.floats
import dev.edgex.model.tensor.ints
import dev.edgex.model.tensor.longs
import dev.edgex.model.tensor.tensorOf
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.coroutines.Continuation
import kotlin.coroutines.EmptyCoroutineContext
import kotlin.coroutines.startCoroutine
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class EdgeModelTest {
    private val spec = Samples.manifest().inputs.single().spec
    private val sizes = mapOf("batch" to 2)

    /** Waits for suspending work, as no app should. */
    private fun <T> await(work: suspend () -> T): T {
        val future = CompletableFuture<T>()
        work.startCoroutine(Continuation(EmptyCoroutineContext) { result -> result.fold(future::complete, future::completeExceptionally) })
        try {
            return future.get(10, TimeUnit.SECONDS)
        } catch (error: ExecutionException) {
            throw error.cause!!
        }
    }

    @Test
    fun `a model runs from many threads, one run after the other, and is loaded once`() {
        val platform = FakePlatform()
        val model = EdgeModel(Samples.manifest(), platform)
        val found = java.util.concurrent.ConcurrentHashMap<Int, Float>()
        val threads = List(8) { number ->
            thread {
                val input = spec.tensorOf(FloatArray(6) { number.toFloat() }, sizes)
                found[number] = await { model.run(listOf(input)) }.outputs.single().floats().first()
            }
        }
        threads.forEach { it.join() }
        assertEquals(List(8) { it to it * 2f }.toMap(), found.toMap())
        assertEquals(1, platform.loads)
    }

    @Test
    fun `what does not fit is refused by name before the engine sees it`() {
        val platform = FakePlatform()
        val model = EdgeModel(Samples.manifest(), platform)
        for (wrong in listOf(emptyList(), listOf(Samples.tensor(1.0)), listOf(Samples.tensor(*DoubleArray(27), shape = intArrayOf(9, 3))))) {
            assertThrows(TensorException::class.java) { await { model.run(wrong) } }
        }
        val halves = Samples.tensor(1.0, 2.0, 3.0, shape = intArrayOf(1, 3), dtype = DType.FLOAT16)
        assertTrue(assertThrows(TensorException::class.java) { await { model.run(listOf(halves)) } }.message!!.contains("x is float32"))
        assertTrue(assertThrows(TensorException::class.java) { spec.tensorOf(FloatArray(5), sizes) }.message!!.contains("x needs 6 values"))
        assertThrows(TensorException::class.java) { spec.tensorOf(IntArray(6), sizes) }
        assertThrows(TensorException::class.java) { spec.tensorOf(FloatArray(27), mapOf("batch" to 9)) }
        assertEquals(0, platform.loads)
    }

    @Test
    fun `it proves and measures itself, and frees what it loaded`() {
        val platform = FakePlatform(stateful = true)
        val model = EdgeModel(Samples.manifest(stateful = true), platform)
        assertTrue(await { model.verifyOnDevice() }.passed)
        assertEquals(5, await { model.measure(BenchmarkSettings(runs = 5, warmup = 1)) }.summary.n)
        await { model.run(listOf(spec.tensorOf(FloatArray(6), sizes))) }
        await { model.reset() }
        assertEquals(platform.loads, platform.closed)
        model.close()
        assertThrows(IllegalStateException::class.java) { await { model.load() } }
    }

    @Test
    fun `arrays of every type keep their values`() {
        fun of(dtype: DType) = spec.copy(dtype = dtype)
        assertArrayEquals(floatArrayOf(0.5f, -1f, 2f), of(DType.FLOAT16).tensorOf(floatArrayOf(0.5f, -1f, 2f)).floats(), 0f)
        assertArrayEquals(intArrayOf(1, -2, 3), of(DType.INT32).tensorOf(intArrayOf(1, -2, 3)).ints())
        assertArrayEquals(longArrayOf(1, -2, 1L shl 60), of(DType.INT64).tensorOf(longArrayOf(1, -2, 1L shl 60)).longs())
        assertEquals(200.0, of(DType.UINT8).tensorOf(byteArrayOf(0, -56, 1))[1], 0.0)
    }
}
