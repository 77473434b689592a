package dev.edgex.model.engine

import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData
import java.io.File
import org.pytorch.executorch.EValue
import org.pytorch.executorch.ExecuTorchRuntime
import org.pytorch.executorch.ExecutorchRuntimeException
import org.pytorch.executorch.Module
import org.pytorch.executorch.Tensor

/** ExecuTorch behind [InferenceEngine]. Its API is experimental, so nothing outside this file names it. */
class ExecuTorchEngine private constructor(private val module: Module, private val method: String) : InferenceEngine {
    private var inputs = emptyArray<EValue>()
    private var results = emptyArray<EValue>()

    override fun bind(inputs: List<TensorData>) {
        this.inputs = Array(inputs.size) { EValue.from(toTensor(inputs[it])) }
    }

    override fun run() {
        // Without inputs the runtime would run on ones that it makes up.
        check(inputs.isNotEmpty()) { "no inputs are bound" }
        results = explained("run the model") { module.execute(method, *inputs) }
    }

    override fun outputs(): List<TensorData> = results.map { value ->
        if (!value.isTensor()) throw EngineException("an output is not a tensor")
        fromTensor(value.toTensor())
    }

    override fun writeTrace(file: File): String? =
        if (module.etdump(file.path)) null else "the published AAR is built without EXECUTORCH_ANDROID_PROFILING"

    override fun close() = module.close()

    private fun toTensor(data: TensorData): Tensor {
        val shape = LongArray(data.shape.size) { data.shape[it].toLong() }
        val bytes = data.bytes
        return when (data.dtype) {
            DType.FLOAT32 -> Tensor.fromBlob(bytes.asFloatBuffer(), shape)
            DType.FLOAT64 -> Tensor.fromBlob(bytes.asDoubleBuffer(), shape)
            DType.FLOAT16 -> Tensor.fromBlob(bytes.asShortBuffer(), shape)
            DType.INT8 -> Tensor.fromBlob(bytes, shape)
            DType.UINT8 -> Tensor.fromBlobUnsigned(bytes, shape)
            DType.INT32 -> Tensor.fromBlob(bytes.asIntBuffer(), shape)
            DType.INT64 -> Tensor.fromBlob(bytes.asLongBuffer(), shape)
        }
    }

    /** Copies: an output is a view of native memory that the next run overwrites. */
    private fun fromTensor(tensor: Tensor): TensorData {
        val dtype = TYPES[tensor.dtype().name] ?: throw EngineException("an output has the type ${tensor.dtype()}")
        val shape = tensor.shape()
        val data = TensorData.allocate(dtype, IntArray(shape.size) { Math.toIntExact(shape[it]) })
        val bytes = data.bytes
        when (dtype) {
            DType.FLOAT32 -> tensor.copyDataInto(bytes.asFloatBuffer())
            DType.FLOAT64 -> tensor.copyDataInto(bytes.asDoubleBuffer())
            DType.FLOAT16 -> tensor.copyDataInto(bytes.asShortBuffer())
            DType.INT8 -> tensor.copyDataInto(bytes.duplicate())
            DType.UINT8 -> tensor.copyDataIntoUnsigned(bytes.duplicate())
            DType.INT32 -> tensor.copyDataInto(bytes.asIntBuffer())
            DType.INT64 -> tensor.copyDataInto(bytes.asLongBuffer())
        }
        return data
    }

    companion object : EngineLibrary {
        override val label = "ExecuTorch"
        override val loadModes = LoadMode.entries

        private const val NANOS = 1e9

        private val TYPES = mapOf(
            "FLOAT" to DType.FLOAT32,
            "DOUBLE" to DType.FLOAT64,
            "HALF" to DType.FLOAT16,
            "INT8" to DType.INT8,
            "UINT8" to DType.UINT8,
            "INT32" to DType.INT32,
            "INT64" to DType.INT64,
        )

        /** Codes whose cause a user can do something about; the others explain themselves. */
        private val HINTS = mapOf(
            0x12 to "an input does not have the shape or type that the model takes",
            0x14 to "the ExecuTorch in this app lacks an operator of the model: are exporter and AAR of one version?",
            0x20 to "the ExecuTorch in this app lacks a backend of the model: is this the right flavor?",
            0x21 to "there is not enough memory",
            0x23 to "the model's file is damaged, or made by another version of ExecuTorch",
            0x30 to "a backend cannot read its part of the model, which another version made",
        )

        override fun loadLibrary() {
            try {
                ExecuTorchRuntime.getRuntime()
            } catch (error: LinkageError) {
                throw EngineException("ExecuTorch's library cannot be loaded; it exists for arm64-v8a and x86_64", error)
            }
        }

        override fun registeredBackends(): List<String> = ExecuTorchRuntime.getRegisteredBackends().asList()

        /** Loads the program and its method, which are timed apart. */
        override fun load(program: ModelProgram, threads: Int, loadMode: LoadMode): LoadedEngine {
            val started = System.nanoTime()
            val module = explained("load the model") { Module.load(program.file.path, codeOf(loadMode), threads) }
            val loaded = System.nanoTime()
            try {
                explained("load the method ${program.method}") { module.loadMethod(program.method) }
            } catch (error: EngineException) {
                module.close()
                throw error
            }
            val times = LoadTimes((loaded - started) / NANOS, (System.nanoTime() - loaded) / NANOS)
            return LoadedEngine(ExecuTorchEngine(module, program.method), times)
        }

        private fun codeOf(mode: LoadMode): Int = when (mode) {
            LoadMode.MMAP -> Module.LOAD_MODE_MMAP
            LoadMode.FILE -> Module.LOAD_MODE_FILE
            LoadMode.MLOCK -> Module.LOAD_MODE_MMAP_USE_MLOCK
        }

        private inline fun <T> explained(doing: String, work: () -> T): T = try {
            work()
        } catch (error: ExecutorchRuntimeException) {
            val hint = HINTS[error.errorCode]?.let { "$it\n" }.orEmpty()
            throw EngineException("ExecuTorch could not $doing: $hint${error.message}", error)
        }
    }
}
